"""What a rerank request may hold: a query, and documents as texts or as objects with a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from marshmallow import Schema, fields, validate

from localai.errors import BadInput
from web import limits
from web.errors import UnusableNumber
from web.schemas.fields import Switch, Whole, load
from web.schemas.sampling import model_name


class _Rerank(Schema):
    model = model_name()
    query = fields.String(required=True, validate=validate.Length(1))
    documents = fields.Raw(required=True)
    top_n = Whole(allow_none=True, load_default=None)
    return_documents = Switch(allow_none=True, load_default=True)


_SCHEMA = _Rerank()


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankCall:
    """One request for an order of documents, checked."""

    model: str
    query: str
    documents: Sequence[str]
    #: How many of the best are wanted; never more than there are.
    top_n: int
    return_documents: bool


def read_rerank(body: Mapping[str, Any]) -> RerankCall:
    """The request in a body. Raises BadInput; for a `top_n` below 1 its subclass UnusableNumber."""
    data = load(_SCHEMA, body)
    documents = _documents(data["documents"])
    top_n = len(documents) if data["top_n"] is None else data["top_n"]
    if top_n < 1:
        raise UnusableNumber("top_n", top_n, "a whole number from 1")
    return RerankCall(
        model=data["model"],
        query=data["query"],
        documents=documents,
        top_n=min(top_n, len(documents)),
        return_documents=data["return_documents"] is not False,
    )


def _documents(given: Any) -> Sequence[str]:
    if not isinstance(given, list):
        raise BadInput("documents", given, "a list of documents")
    most = limits.DOCUMENTS.most
    if not 1 <= len(given) <= most:
        text = f"documents: {len(given)} documents cannot be ranked; accepted: 1 to {most}"
        raise BadInput("documents", len(given), f"1 to {most} documents", text)
    return tuple(_document(f"documents[{place}]", item) for place, item in enumerate(given))


def _document(name: str, given: Any) -> str:
    found = given.get("text") if isinstance(given, dict) else given
    if not isinstance(found, str):
        raise BadInput(name, given, 'a text, or an object such as {"text": "..."}')
    return found
