"""The forms of requests and answers; they check requests and make the OpenAPI schema."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat, model_validator
from pydantic.json_schema import models_json_schema
from starlette.responses import Response as HttpResponse

MAX_KEYS = 256
"""Keys of one object; a model reads a few columns."""
JSON, PROBLEM = "application/json", "application/problem+json"
CLOSE = {"Connection": "close"}
TEMPLATE = "#/components/schemas/{model}"
REFUSALS = {
    400: "The request is not whole.",
    404: "Unknown bundle.",
    408: "The request arrived too slowly.",
    413: "The request is too large.",
    415: "The request is not JSON.",
    422: "The request is not of this form, or an example is not what the model reads.",
    429: "The queue is full; retry after the seconds of Retry-After.",
    503: "No answer in time, or the service is shutting down; retry after Retry-After.",
}


def limit_keys(given: Any) -> Any:  # Any: what the client sent
    """Return what is given, unless it is an object with too many keys.

    Each wrong value is an error, and a list of 80,000 errors takes seconds; pydantic counts keys
    only after it has checked them.
    """
    if isinstance(given, dict) and len(given) > MAX_KEYS:
        raise ValueError(f"found {len(given)} keys, expected at most {MAX_KEYS}")
    return given


# A list ends at its first error, for the reason in limit_keys. pydantic's FailFast does the same,
# but is not allowed in a union, since it has no hash.
Words: TypeAlias = Annotated[list[str], Field(fail_fast=True)]
Numbers: TypeAlias = Annotated[list[FiniteFloat], Field(fail_fast=True)]
Vectors: TypeAlias = Annotated[list[Numbers], Field(fail_fast=True)]
Texts: TypeAlias = Annotated[list[str | Words], Field(fail_fast=True)]
Columns: TypeAlias = Annotated[
    dict[str, str | Texts | Numbers | Vectors],
    Field(max_length=MAX_KEYS),
    BeforeValidator(limit_keys),
]
Pair: TypeAlias = Annotated[list[str | Words | Texts], Field(fail_fast=True)]
Example: TypeAlias = str | Pair | Columns
EXAMPLE_FORMS = (
    f"a text, a list of tokens, a list of two texts, or an object of at most {MAX_KEYS} columns: "
    "strings, lists of strings or of lists of strings, lists of finite numbers or of vectors"
)


class Form(BaseModel):
    """Something with these keys and no other."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Request(Form):
    """Examples to predict."""

    bundle: Annotated[
        str | None, Field(description="Its name; may be left out where only one is served.")
    ] = None
    examples: Annotated[
        list[Example],
        Field(
            min_length=1,
            fail_fast=True,
            description=f"Each is {EXAMPLE_FORMS}. Of a model of one text a list is its tokens, "
            "of a model of documents their sentences.",
            examples=[["show me the flights from boston to denver"]],
        ),
    ]

    abstain_below: Annotated[
        Annotated[float, Field(ge=0, le=1)] | Literal["auto"] | None,
        Field(
            description="The least confidence of a label: below it the label is empty, or that out "
            "of scope. auto: what training chose. Only where a label is chosen."
        ),
    ] = None

    _limit_keys = model_validator(mode="before")(limit_keys)


Scores: TypeAlias = Annotated[
    dict[str, float], Field(description="By label; they add up to 1 where only one label is right.")
]


class Choice(Form):
    """The one right label."""

    label: str
    confidence: float
    scores: Scores


class Choices(Form):
    """All labels that apply."""

    labels: list[str]
    confidence: list[float]
    scores: Scores


class Value(Form):
    """A number."""

    score: float


class Embedding(Form):
    """A vector of a text."""

    embedding: list[float]


class Order(Choice):
    """Whether a candidate is right, and the score by which candidates are ordered."""

    score: float


class Entity(Form):
    """Neighbouring tokens of one type."""

    type: str
    first: Annotated[int, Field(description="Its first token, counted from 0.")]
    last: Annotated[int, Field(description="Its last token.")]
    text: str


class Tags(Form):
    """A tag for each token."""

    tokens: list[str]
    tags: list[str]
    confidence: list[float]
    entities: list[Entity] | None = None


class SentenceTags(Form):
    """A label for each sentence of a document."""

    sentences: list[str]
    tags: list[str]
    confidence: list[float]


class IntentSlots(Choice):
    """An intent, and the tags of its slots."""

    slots: Tags


class Answer(Form):
    """The answer to a question; empty if the passage has none."""

    answer: str
    first: Annotated[int | None, Field(description="Its first token in the passage, from 0.")]
    last: int | None
    confidence: float


class Tree(Form):
    """The symbols of a tree: labels with an opening bracket, tokens, closing brackets."""

    tree: list[str]
    confidence: float


class WrittenText(Form):
    """A text that was written."""

    text: str
    confidence: float


Prediction: TypeAlias = (
    Choice
    | Choices
    | Value
    | Embedding
    | Order
    | Tags
    | SentenceTags
    | IntentSlots
    | Answer
    | WrittenText
    | Tree
)


class Response(Form):
    """Predictions in the order of the examples."""

    bundle: str
    predictions: list[Prediction]


class BundleNote(Form):
    """A bundle that is served."""

    name: str
    kind: str
    variant: str
    texts: Annotated[list[str], Field(description="The columns of texts that an example has.")]
    columns: Annotated[list[str], Field(description="Other columns that an example needs.")]
    labels: Annotated[dict[str, list[str]], Field(description="By target.")]
    abstain_below: Annotated[float | None, Field(description="What training chose.")] = None
    out_of_scope: Annotated[
        str | None, Field(description="The label where the confidence is below abstain_below.")
    ] = None


class Bundles(Form):
    """The bundles that are served."""

    bundles: list[BundleNote]


class Health(Form):
    """Whether requests are accepted."""

    status: str


class Problem(Form):
    """Why a request was rejected (RFC 9457)."""

    title: str
    status: int
    detail: str
    field: str | None = None


class ProblemError(Exception):
    """A rejected request; `field` is a part of it, such as examples[2]."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.field = field
        self.headers = headers

    def answer(self) -> HttpResponse:
        title = HTTPStatus(self.status).phrase
        note = Problem(title=title, status=self.status, detail=str(self), field=self.field)
        body = note.model_dump_json(exclude_none=True)
        return HttpResponse(body, self.status, self.headers, PROBLEM)


def describe_service(version: str) -> dict[str, Any]:  # Any: JSON
    """Return the OpenAPI document."""
    forms = (Request, Response, Bundles, Health, Problem)
    _, definitions = models_json_schema(
        [(form, "validation") for form in forms], ref_template=TEMPLATE
    )
    predict = _describe("predict", "Predict a list of examples", _hold("Response"))
    predict["requestBody"] = {"required": True, "content": _hold("Request")}
    predict["responses"] |= {
        str(status): {"description": text, "content": _hold("Problem", PROBLEM)}
        for status, text in REFUSALS.items()
    }
    health = _describe("health", "Say whether requests are accepted", _hold("Health"))
    health["responses"]["503"] = {
        "description": "The service is shutting down.",
        "content": _hold("Health"),
    }
    metrics = {"text/plain": {"schema": {"type": "string"}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Reglue", "version": version},
        "paths": {
            "/predict": {"post": predict},
            "/bundles": {"get": _describe("bundles", "Name the bundles", _hold("Bundles"))},
            "/health": {"get": health},
            "/metrics": {"get": _describe("metrics", "Count, for Prometheus", metrics)},
        },
        "components": {"schemas": definitions["$defs"]},
    }


def _hold(name: str, media_type: str = JSON) -> dict[str, Any]:
    return {media_type: {"schema": {"$ref": TEMPLATE.format(model=name)}}}


def _describe(name: str, summary: str, content: dict[str, Any]) -> dict[str, Any]:
    found = {"200": {"description": "Success.", "content": content}}
    return {"operationId": name, "summary": summary, "responses": found}
