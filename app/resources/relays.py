"""Relays as a resource type."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from app.resources.base import Job, ResourceType
from app.resources.maintenance import PackedMaintenance
from formats import relay_commands, relays
from indexes.relays import state as states
from indexes.relays import verification
from indexes.relays.commands import ChangeLinks, DeleteSubscriptions, Rederive
from indexes.relays.config import UPSTREAM, Link, RelayConfig
from indexes.relays.engine import RelayEngine
from indexes.relays.packing import PackedRelay, unpack_indexes
from indexes.relays.plans.links import LinksPlan, RederivePlan
from indexes.relays.plans.subscriptions import EditPlan
from indexes.relays.relay import Relay
from indexes.relays.results import RederivedColumns
from indexes.relays.state import State, packed_of, relay_of
from indexes.relays.store import RelayPlan

LISTED = 100_000
"""Ids in the detail of a rebuild, of a relay without links: its caller has to forward each. As many as a list in a
request has at most."""

SHOWN = 100
"""The same for each link of a relay with links, which forwards by itself."""


class RelayMaintenance(PackedMaintenance):
    """A rebuild of a relay ends with a command that reduces what it forwards to the least possible.

    Spark packs the indexes of relays; it verifies nothing of them.
    """

    spark_rebuild = "rebuild.relays"
    verify = staticmethod(verification.verify)

    def size(self, engine: RelayEngine) -> int:
        return engine.subscription_count

    def changed_share(self, engine: RelayEngine) -> float:
        return engine.relay.churn

    def rows(self, state: State) -> int:
        return len(state.relay.link)

    def pack(self, state: State) -> PackedRelay:
        return packed_of(state)

    def fresh(self, image: PackedRelay | None, state: State) -> Relay:
        return relay_of(state, None if image is None else unpack_indexes(state.config, state.relay, image))

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


class RelayType(ResourceType):
    """Subscriptions that are boxes, and links.

    `on_edit` gets each plan that made, changed or deleted some that clients made: by their ids, or with the link that
    they came over.
    """

    prefix = relays.RESOURCE
    noun = "relay"
    maintenance = RelayMaintenance()
    edits = (EditPlan, LinksPlan)
    fixed: ClassVar[dict[str, str]] = {
        "attributes": "attributes",
        "graph": "graph.kind",
        "k": "graph.k",
        "index": "index",
    }
    deletion = DeleteSubscriptions
    encode = staticmethod(relay_commands.encode)
    decode = staticmethod(relay_commands.decode)
    state_of = staticmethod(states.state_of)
    write_state = staticmethod(relays.write_state)
    read_state = staticmethod(relays.read_state)

    def kernels(self, config: RelayConfig) -> tuple[str, ...]:
        default = config.graph == "G" and config.index == "kd"
        return ("relays.main",) if default else ("relays.main", "relays.alternatives")

    def make(self, config: RelayConfig, first_seq: int) -> RelayEngine:
        return RelayEngine(config, first_seq)

    def change(self, engine: RelayEngine, config: RelayConfig) -> RelayPlan:
        """The links may change; where one is given without a key and leads to the same place, the key stays.

        Raises Refused: it differs in something else.
        """
        now = engine.latest_config
        self.check_fixed(now, config)
        links: dict[str, Link | None] = dict.fromkeys(now.links.keys() - config.links.keys())
        for name, link in config.links.items():
            before = now.links.get(name)
            keeps = link.key is None and before is not None and before.same_place(link.url)
            links[name] = replace(link, key=before.key) if keeps and before is not None else link
        plan: RelayPlan = engine.prepare(ChangeLinks(dict(sorted(links.items()))))
        return plan

    def engine_of(self, state: State, image: PackedRelay | None) -> RelayEngine:
        return states.engine_of(state, None if image is None else unpack_indexes(state.config, state.relay, image))

    def sizes(self, engine: RelayEngine) -> dict[str, int]:
        return {"seq": engine.seq, "subscriptions": engine.subscription_count, "links": len(engine.config.links)}


def _counted(changed: RederivedColumns, most: int) -> dict[str, Any]:
    return {
        "subscribe": changed.subscribe[:most].to_pylist(),
        "subscribe_count": len(changed.subscribe),
        "unsubscribe": changed.unsubscribe[:most].to_pylist(),
        "unsubscribe_count": len(changed.unsubscribe),
    }
