"""The compiled protocol is the one that backends written elsewhere speak."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

import protos
from protos import backend_pb2, generate

pytestmark = pytest.mark.unit

FACTS = json.loads(Path(protos.__file__).with_name("backend-proto.json").read_text(encoding="utf-8"))
FILE = backend_pb2.DESCRIPTOR
SCALARS = {value: name[5:].lower() for name, value in vars(FieldDescriptor).items() if name.startswith("TYPE_")}


def messages() -> dict[str, Descriptor]:
    found: dict[str, Descriptor] = {}

    def walk(prefix: str, message: Descriptor) -> None:
        if message.GetOptions().map_entry:
            return
        found[prefix + message.name] = message
        for nested in message.nested_types:
            walk(f"{prefix}{message.name}.", nested)

    for message in FILE.message_types_by_name.values():
        walk("", message)
    return found


def enums() -> dict[str, EnumDescriptor]:
    found = dict(FILE.enum_types_by_name)
    for name, message in messages().items():
        found.update({f"{name}.{enum.name}": enum for enum in message.enum_types})
    return found


def described(field: FieldDescriptor) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": field.name, "number": field.number}
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        key, value = entry.fields_by_name["key"], entry.fields_by_name["value"]
        return facts | {"type": "map", "map_key": SCALARS[key.type], "map_value": SCALARS[value.type], "label": "map"}
    target = entry or field.enum_type
    facts["type"] = target.full_name.removeprefix("backend.") if target else SCALARS[field.type]
    if target:
        facts["kind"] = "message" if entry else "enum"
    oneof = field.containing_oneof
    optional = oneof is not None and oneof.name == "_" + field.name
    facts["label"] = "repeated" if field.is_repeated else "optional" if optional else "singular"
    if oneof is not None and not optional:
        facts["oneof"] = oneof.name
    return facts


def by_number(fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(fields, key=lambda field: field["number"])


def test_the_reference_has_the_size_that_was_counted_in_the_original() -> None:
    assert len(FACTS["services"][0]["rpcs"]) == 52
    assert len(FACTS["messages"]) == 114
    assert sum(len(message["fields"]) for message in FACTS["messages"]) == 627
    assert len(FACTS["enums"]) == 3


def test_the_service_offers_exactly_the_reference_calls() -> None:
    calls = [
        {
            "name": method.name,
            "path": f"/backend.Backend/{method.name}",
            "request": method.input_type.name,
            "request_stream": method.client_streaming,
            "response": method.output_type.name,
            "response_stream": method.server_streaming,
        }
        for method in FILE.services_by_name["Backend"].methods
    ]
    key = lambda call: call["name"]  # noqa: E731
    assert sorted(calls, key=key) == sorted(FACTS["services"][0]["rpcs"], key=key)


def test_every_field_has_the_name_number_type_and_label_of_the_reference() -> None:
    assert FILE.package == FACTS["package"]
    compiled = {name: by_number([described(field) for field in message.fields]) for name, message in messages().items()}
    assert compiled == {message["name"]: by_number(message["fields"]) for message in FACTS["messages"]}


def test_reserved_numbers_stay_reserved() -> None:
    for facts in FACTS["messages"]:
        proto = backend_pb2.DESCRIPTOR.message_types_by_name[facts["name"]]
        copied = _as_proto(proto)
        ranges = [[span.start, span.end - 1] for span in copied.reserved_range]
        assert ranges == facts.get("reserved_numbers", []), facts["name"]


def _as_proto(message: Descriptor) -> Any:
    from google.protobuf.descriptor_pb2 import DescriptorProto

    copied = DescriptorProto()
    message.CopyToProto(copied)
    return copied


def test_enums_equal_the_reference() -> None:
    compiled = {
        name: [{"name": value.name, "number": value.number} for value in enum.values] for name, enum in enums().items()
    }
    assert compiled == {enum["name"]: enum["values"] for enum in FACTS["enums"]}


def test_the_committed_stubs_are_those_of_the_proto_file() -> None:
    assert generate.stale() == []
