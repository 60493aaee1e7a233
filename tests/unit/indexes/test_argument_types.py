"""The types by which numba knows the arguments of kernels: all are there before kernels are called."""

from __future__ import annotations

import subprocess
import sys

from tests.support.patience import PATIENCE

CODE = """
import indexes.compiled.jit
from numba.core.typing.typeof import typeof_impl

before = set(typeof_impl.registry)
from indexes.boards.subscription_index import SubscriptionIndex

SubscriptionIndex((1, 3))
print(sorted(kind.__name__ for kind in set(typeof_impl.registry) - before))
"""


def test_no_type_is_registered_while_kernels_are_called() -> None:
    """A registry that grows in one thread while another looks a type up in it fails that one's call."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
