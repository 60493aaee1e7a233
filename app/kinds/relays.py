"""Relays as a kind of resource."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from app.kinds import Job, Kind
from app.kinds.fixed import check_fixed
from app.kinds.upkeep import Upkeep
from formats.commands import Part
from formats.folder import Draft, Folder
from formats.parts import read_image, write_image
from formats.relay_commands import Logged, decode, encode
from formats.relays import RESOURCE, read_state, write_state
from indexes.checked import Checked
from indexes.relays.commands import ChangeLinks, Rederive
from indexes.relays.engine import RelayEngine
from indexes.relays.link_plans import LinksPlan, RederivePlan
from indexes.relays.model import UPSTREAM, Changed, Link, RelayConfig
from indexes.relays.packing import PackedRelay, unpack_indexes
from indexes.relays.plans import EditPlan, Plan
from indexes.relays.relay import Relay
from indexes.relays.state import State, engine_of, packed_of, relay_of, state_of
from indexes.relays.upkeep import Captured, FoldPlan
from indexes.relays.verify import verify

LISTED = 100_000
"""Ids that the detail of a rebuild lists, of a relay without links: whoever forwards for it has to act on each. As many
as a list in a request has at most."""

SHOWN = 100
"""The same of a relay with links, for each: it acts by itself."""

_FIXED = {"attributes": "attributes", "graph": "graph.kind", "k": "graph.k", "index": "index"}
"""What of a configuration cannot be changed, and how it is called in a body."""


class RelayUpkeep(Upkeep):
    """A rebuild of a relay ends with a command by which it forwards the least that it can from then on. Spark lays out
    the indexes of relays; it compares nothing of them."""

    spark_rebuild = "relays"

    def worn(self, engine: RelayEngine, least: int) -> float:
        return engine.relay.worn if engine.subscription_count >= least else 0.0

    def packs(self, state: State) -> bool:
        return True

    def rows(self, state: State) -> int:
        return len(state.relay.link)

    def pack(self, state: State) -> PackedRelay:
        return packed_of(state)

    def write_image(self, folder: Folder, resource: str, lsn: int, image: PackedRelay) -> None:
        write_image(folder, resource, lsn, image)

    def read_image(self, folder: Folder) -> PackedRelay | None:
        return read_image(folder)

    def fresh(self, image: PackedRelay | None, state: State) -> Relay:
        return relay_of(state, None if image is None else unpack_indexes(state.config, state.relay, image))

    def fold(self, engine: RelayEngine, fresh: Relay) -> FoldPlan:
        return engine.fold(fresh)

    def rederivation(self) -> Rederive:
        return Rederive()

    def rederived(self, job: Job) -> dict[str, Any]:
        """By link, or without links plain: the first ids, oldest first, and how many there are."""
        assert isinstance(job, RederivePlan)
        if UPSTREAM in job.changed:
            return {"seq": job.last_seq, **_counted(job.changed[UPSTREAM], LISTED)}
        links = {name: _counted(job.changed[name], SHOWN) for name in sorted(job.changed)}
        return {"seq": job.last_seq, "links": links}

    def forget(self, engine: RelayEngine) -> None:
        engine.relay.end_journal()

    def verify(self, captured: Captured) -> Iterator[Checked]:
        return verify(captured)


class RelayKind(Kind):
    """Subscriptions that are boxes, and links. `on_edit` is told of each plan that made, changed or deleted some that
    clients made: by their ids, or with the link that they came over."""

    prefix = RESOURCE
    noun = "relay"
    upkeep = RelayUpkeep()
    edits = (EditPlan, LinksPlan)

    def kernels(self, config: RelayConfig) -> tuple[str, ...]:
        default = config.graph == "G" and config.index == "kd"
        return ("relays.main",) if default else ("relays.main", "relays.alternatives")

    def make(self, config: RelayConfig, first_seq: int) -> RelayEngine:
        return RelayEngine(config, first_seq)

    def change(self, engine: RelayEngine, config: RelayConfig) -> Plan:
        """The links may change; where one is given without a key and leads to the same place, the key stays. Raises
        Refused: it differs in something else."""
        now = engine.latest_config
        check_fixed(self.noun, _FIXED, now, config)
        links: dict[str, Link | None] = dict.fromkeys(now.links.keys() - config.links.keys())
        for name, link in config.links.items():
            before = now.links.get(name)
            keeps = link.key is None and before is not None and before.same_place(link.url)
            links[name] = replace(link, key=before.key) if keeps and before is not None else link
        return engine.prepare(ChangeLinks(dict(sorted(links.items()))))

    def encode(self, command: Logged, count: int) -> Iterable[Part]:
        return encode(command, count)

    def decode(self, parts: list[tuple[str, bytes]]) -> Logged:
        return decode(parts)

    def state_of(self, captured: Captured) -> State:
        return state_of(captured)

    def write_state(self, draft: Draft, name: str, state: State) -> dict[str, Any]:
        return write_state(draft, name, state)

    def read_state(self, folder: Folder, name: str, about: dict[str, Any]) -> State:
        return read_state(folder, name, about)

    def engine_of(self, state: State, image: PackedRelay | None) -> RelayEngine:
        return engine_of(state, None if image is None else unpack_indexes(state.config, state.relay, image))

    def sizes(self, engine: RelayEngine) -> dict[str, int]:
        return {"seq": engine.seq, "subscriptions": engine.subscription_count, "links": len(engine.config.links)}


def _counted(changed: Changed, most: int) -> dict[str, Any]:
    return {
        "subscribe": changed.subscribe[:most].to_pylist(),
        "subscribe_count": len(changed.subscribe),
        "unsubscribe": changed.unsubscribe[:most].to_pylist(),
        "unsubscribe_count": len(changed.unsubscribe),
    }
