"""A code library for kernels: each kernel becomes machine code once, however many kernels call it.

By default numba links the code of all callees into each caller, optimizes it all again and emits it all again, down to
the last leaf: what lies at the bottom of a chain of calls is compiled once for each kernel above it. For a project of
some hundred kernels that call each other, this is most of the compile time.

Here a kernel is compiled into an object of its own and its callers refer to it by its symbol, as object files do that a
linker joins. The callers link the code itself in two cases only: for a callee that is to be inlined (`forceinline`),
and for one that is so small that LLVM might inline it. A callee of the second kind, and any other function that only
compiled code calls, gets no machine code of its own at all until somebody asks for its address.

The pass pipeline, the linkage rules and the engine are numba's; `target_codegen` makes them use this library, before
the first kernel is compiled.
"""

from __future__ import annotations

import weakref
from types import MethodType
from typing import Any, NamedTuple

from llvmlite import binding as llvm
from numba.core import compiler, environment, lowering, typed_passes
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler_machinery import register_pass
from numba.core.registry import cpu_target

from indexes.compiled import arguments, speedups

INLINE_INSTRUCTIONS = 300
"""LLVM instructions (after optimization) up to which the code of a callee is linked into its callers.

LLVM's own limit is a cost of 225 to 250 at five a plain instruction, less five for each argument passed, and less what
constant arguments decide; a NamedTuple of arrays may be fifty arguments. Linked at 60 instructions, reads of boards
and the k-d tree of relays were 10 to 20% slower, and triangles 35%; linked at 300, all groups take 10% longer to
compile."""

PASTE_INSTRUCTIONS = 4000
"""As `INLINE_INSTRUCTIONS`, for callees that ask to be inlined."""

_ENVIRONMENT = "_ZN08NumbaEnv"


class Specialization(NamedTuple):
    """One kernel for one tuple of argument types, by name: `args` are numba types. A kernel that asks to be inlined may
    have the name of one that does not."""

    module: str
    qualname: str
    inlined: bool
    args: tuple[Any, ...]


_symbols: dict[str, Specialization] = {}
"""Which specialization defines a symbol, for all that have machine code which callers refer to."""

shareable: set[Any] = set()
"""Code objects of the functions that can be found by name and may therefore be called by symbol."""


class KernelLibrary(JITCodeLibrary):
    """A library that is linked by symbol where that pays.

    `shared`: callers refer to its symbols. `calls`: the symbols that it refers to, each with the specialization that
    defines it; they are loaded before its own machine code is.
    """

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        self.specialization: Specialization | None = None
        self.inlined = False
        self.entry = False
        self.shared = False
        self.calls: tuple[tuple[str, Specialization], ...] = ()
        self._emitted = False
        self._bitcode: bytes | None = None

    def finalize(self) -> None:
        """Link what is to be inlined, optimize, and emit machine code if something may ask for it."""
        self._raise_if_finalized()
        own = [function.name for function in self._final_module.functions if not function.is_declaration]
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            if not getattr(library, "shared", False):  # one that numba made before
                self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._optimize_final_module()
        self._final_module.verify()
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True
        declared = [function.name for function in self._final_module.functions if function.is_declaration]
        self.calls = tuple((name, _symbols[name]) for name in declared if name in _symbols)
        if self.specialization is not None:
            most = PASTE_INSTRUCTIONS if self.inlined else INLINE_INSTRUCTIONS
            self.shared = any(self._size(name) > most for name in own if not _is_wrapper(name))
        if self.entry or self.shared:
            self._emit()

    def _optimize_functions(self, ll_module: Any) -> None:
        """Leave functions as they are until all that they inline is linked: the passes over the module do it all."""
        ll_module.data_layout = self._codegen._data_layout

    def _verify_declare_only_symbols(self) -> None:
        for function in self._final_module.functions:
            if function.is_declaration and function.name.startswith("_ZN5numba") and function.name not in _symbols:
                raise AssertionError(f"symbol {function.name} is not linked")

    def _size(self, name: str) -> int:
        """The instructions of a function, about; 0 if it was inlined wherever it was called, and is there no more."""
        try:
            return str(self._final_module.get_function(name)).count("\n")
        except NameError:
            return 0

    def _emit(self) -> None:
        """Give the module to the engine, which generates its machine code or takes it from the cache."""
        self._emitted = True
        self._final_module._CPUCodeLibrary__library = weakref.proxy(self)
        self._codegen._add_module(self._final_module)
        self._finalize_specific()
        for variable in self._final_module.global_variables:
            if variable.name.startswith(_ENVIRONMENT):
                found = environment.lookup_environment(variable.name)
                if found is not None:
                    _set_env(self._codegen, variable.name, found)

    def get_pointer_to_function(self, name: str) -> int:
        """As the base class; emits the machine code if that was not needed before."""
        self._ensure_finalized()
        if not self._emitted and any(f.name == name and not f.is_declaration for f in self._final_module.functions):
            self._emit()
        found: int = super().get_pointer_to_function(name)
        return found

    def _get_module_for_linking(self) -> Any:
        if self._shared_module is None and self._bitcode is not None:
            self._shared_module = llvm.parse_bitcode(self._bitcode)
        return super()._get_module_for_linking()

    def serialize_using_object_code(self) -> Any:
        """What the cache keeps: object code if there is any, and bitcode for callers that link it."""
        self._ensure_finalized()
        compiled = self._get_compiled_object() if self._emitted else None
        bitcode = None if self.shared else self._get_module_for_linking().as_bitcode()
        return (self.name, "kernel", (compiled, bitcode, self._defined(), self.shared, self.calls))

    def _defined(self) -> list[str]:
        """The symbols of the machine code that anybody may ask the engine for."""
        if not self._emitted:
            return []
        functions = (each.name for each in self._final_module.functions if not each.is_declaration)
        variables = (each.name for each in self._final_module.global_variables if each.name.startswith(_ENVIRONMENT))
        return [*functions, *variables]

    @classmethod
    def _unserialize(cls, codegen: Any, state: Any) -> Any:
        name, kind, data = state
        if kind != "kernel":
            return super()._unserialize(codegen, state)
        self = codegen.create_library(name)
        compiled, self._bitcode, defined, self.shared, self.calls = data
        self._finalized = True
        if compiled is not None:
            self.enable_object_caching()
            self._set_compiled_object(compiled)
            codegen._engine._defined_symbols.update(defined)
            self._emit()
        return self


def _is_wrapper(name: str) -> bool:
    return name.startswith(("_ZN7cpython", "cfunc."))


def define(symbol: str, specialization: Specialization) -> None:
    """Note that the machine code of a specialization defines `symbol`."""
    _symbols[symbol] = specialization


class _PlainLower(lowering.Lower):
    """Lowers a kernel that gets its arrays as pointer and shape."""

    def __init__(self, context: Any, library: Any, descriptor: Any, *args: Any, **options: Any) -> None:
        descriptor.argtypes = arguments.PlainArrays(descriptor.argtypes)
        super().__init__(context, library, descriptor, *args, **options)


def is_defined(symbol: str) -> bool:
    """Whether machine code of this process defines the symbol."""
    found: bool = target_codegen()._engine.is_symbol_defined(symbol)
    return found


@register_pass(mutates_CFG=True, analysis_only=False)
class KernelLowering(typed_passes.NativeLowering):
    """Numba's lowering into a `KernelLibrary` that knows which kernel it holds."""

    _name = "kernel_lowering"

    lowering_class: Any = None

    def run_pass(self, state: Any) -> bool:
        assert "get_arg_packer" in vars(state.targetctx), "compiled before `target_codegen` was called"
        self.lowering_class = lowering.Lower if state.flags.nrt else _PlainLower
        library = state.targetctx.codegen().create_library(state.func_id.func_qualname)
        library.enable_object_caching()
        library.inlined = bool(state.flags.forceinline)
        library.entry = not state.flags.no_cpython_wrapper
        function = state.func_id.func
        if function.__code__ in shareable:
            library.specialization = Specialization(
                function.__module__, function.__qualname__, library.inlined, tuple(state.args)
            )
        state.library = library
        done: bool = super().run_pass(state)
        if library.specialization is not None:
            define(state["cr"].fndesc.llvm_func_name, library.specialization)
        return done


class KernelCompiler(compiler.CompilerBase):
    """Numba's nopython pipeline, lowered by `KernelLowering`."""

    def define_pipelines(self) -> list[Any]:
        pipeline = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        pipeline.passes = [
            (KernelLowering if each is typed_passes.NativeLowering else each, about) for each, about in pipeline.passes
        ]
        pipeline._finalized = False
        pipeline.finalize()
        return [pipeline]


def _set_env(codegen: Any, name: str, env: Any) -> None:
    """As numba's, for a symbol that may have no machine code (yet); `_emit` comes back to it."""
    if codegen._engine.is_symbol_defined(name):
        JITCPUCodegen.set_env(codegen, name, env)


def target_codegen() -> Any:
    """Numba's code generator for this processor, which makes kernel libraries."""
    codegen = cpu_target.target_context.codegen()
    if codegen._library_class is not KernelLibrary:
        codegen._library_class = KernelLibrary
        codegen.set_env = MethodType(_set_env, codegen)
        arguments.install(cpu_target.target_context)
        speedups.install()
    return codegen
