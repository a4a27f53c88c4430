"""What bodies about nodes may hold: an agent's registration, heartbeat and claim, and the model to unload there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import fields as fields_of
from typing import Any

from marshmallow import EXCLUDE, Schema, ValidationError, fields, validate

from localai.errors import BadInput
from localai.nodes.credentials import hash_of
from localai.nodes.holding_rules import Holdings, holdings_of
from localai.nodes.invitation_rules import LONGEST_S, SHORTEST_S, USUAL_S
from localai.nodes.rules import LABEL_KEY_MOST, LABEL_VALUE_MOST, Figures, NodeType, Registration
from localai.whole_numbers import BIGINT
from web import limits
from web.schemas.fields import Entries, Items, Whole, load, number, text, whole


def _bytes() -> Whole:
    # Every size in bytes of a machine lies far below.
    return whole(0, BIGINT)


class _HeldFile(Schema):
    path = fields.String(required=True, validate=validate.Length(1, 4096))
    sha256 = fields.String(required=True, validate=validate.Regexp("[0-9a-f]{12,64}$"))
    bytes = Whole(required=True, validate=validate.Range(0, BIGINT))


class _Figures(Schema):
    """What a node measures. A figure that could not be read is left out, and the last one stays."""

    total_vram = _bytes()
    available_vram = _bytes()
    total_ram = _bytes()
    available_ram = _bytes()
    total_disk = _bytes()
    available_disk = _bytes()
    gpu_vendor = text(64)
    gpu_compute_capability = text(64)
    cpu_logical_cores = whole(0)
    cpu_usage_percent = number(0, 100_000)
    cpu_load_1 = number(0, 1_000_000)
    staged_files = Items(
        fields.Nested(_HeldFile, unknown=EXCLUDE), limits.STAGED_FILES, allow_none=True, load_default=None
    )
    process_memory = Entries(
        Whole(validate=validate.Range(0, BIGINT)), limits.PROCESS_MEMORY, allow_none=True, load_default=None
    )


class _Labels(Entries):
    """Labels: keys have a length of their own."""

    def _deserialize(
        self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any
    ) -> dict[str, Any]:
        found = super()._deserialize(value, attr, data, **kwargs)
        for key in found:
            if not 0 < len(key) <= LABEL_KEY_MOST:
                raise ValidationError(f"a key has {len(key)} characters; accepted: 1 to {LABEL_KEY_MOST}")
        return found


class _Registration(_Figures):
    name = fields.String(required=True, validate=validate.Length(1, 255))
    node_type = fields.String(load_default="backend", validate=validate.OneOf([kind.value for kind in NodeType]))
    address = text(512)
    http_address = text(512)
    token = fields.String(load_default="")
    version = text(64)
    capability = text(64)
    reports_operations = fields.Boolean(load_default=False)
    labels = _Labels(fields.String(validate=validate.Length(0, LABEL_VALUE_MOST)), limits.LABELS, load_default=dict)
    max_replicas_per_model = whole(0)
    after = whole(0, BIGINT)
    secret = fields.String(load_default=None, allow_none=True, validate=validate.Length(1, 512))


class _Heartbeat(_Figures):
    incarnation = whole(0, BIGINT)


class _Invitation(Schema):
    name = fields.String(required=True, validate=validate.Length(1, 255))
    expires_in = whole(SHORTEST_S, LONGEST_S)


class _Claim(Schema):
    op_generation = Whole(required=True, validate=validate.Range(0, BIGINT))
    incarnation = Whole(required=True, validate=validate.Range(0, BIGINT))
    seq = whole(0, BIGINT)


@dataclass(frozen=True, slots=True)
class Claim:
    """Which operation an agent claims, for which of its lives."""

    op_generation: int
    incarnation: int
    seq: int | None


def read_registration(body: Mapping[str, Any]) -> tuple[Registration, str]:
    """What an agent says of itself, and the token in its body. Raises BadInput that names the field."""
    data = load(_Registration(), body)
    registration = Registration(
        name=data["name"],
        node_type=NodeType(data["node_type"]),
        address=data["address"],
        http_address=data["http_address"],
        version=data["version"],
        capability=data["capability"],
        labels=data["labels"],
        max_replicas_per_model=data["max_replicas_per_model"] or 1,
        figures=_figures(data),
        holdings=_holdings(data),
        reports_operations=data["reports_operations"],
        after=data["after"],
        secret_hash=None if data["secret"] is None else hash_of(data["secret"]),
    )
    return registration, data["token"]


def read_heartbeat(body: Mapping[str, Any]) -> tuple[int | None, Figures, Holdings]:
    """Which incarnation of the agent beats, its figures, and what it holds. Raises BadInput that names the field."""
    data = load(_Heartbeat(), body)
    return data["incarnation"], _figures(data), _holdings(data)


def read_claim(body: Mapping[str, Any]) -> Claim:
    """A claim. Raises BadInput that names the field."""
    data = load(_Claim(), body)
    return Claim(data["op_generation"], data["incarnation"], data["seq"])


def read_invitation(body: Mapping[str, Any]) -> tuple[str, int]:
    """The node name of a join token, and the seconds in which it may be used first. Raises BadInput."""
    data = load(_Invitation(), body)
    return data["name"], USUAL_S if data["expires_in"] is None else data["expires_in"]


def read_unload(body: Mapping[str, Any]) -> tuple[str, bool]:
    """The model to unload on a node, and whether its requests are cut. Raises BadInput."""
    name = body.get("model_name")
    if not isinstance(name, str) or not name.strip():
        raise BadInput("model_name", name, "the name of a model")
    return name, read_force(body)


def read_force(body: Mapping[str, Any]) -> bool:
    """Whether running requests are cut; left out and null are no. Raises BadInput."""
    force = body.get("force")
    if force is not None and not isinstance(force, bool):
        raise BadInput("force", force, "true or false")
    return bool(force)


def _figures(data: Mapping[str, Any]) -> Figures:
    found = {field.name: data[field.name] for field in fields_of(Figures)}
    if found["cpu_usage_percent"] is not None:
        found["cpu_usage_percent"] = min(found["cpu_usage_percent"], 100.0)
    return Figures(**found)


def _holdings(data: Mapping[str, Any]) -> Holdings:
    return holdings_of(data["staged_files"], data["process_memory"])
