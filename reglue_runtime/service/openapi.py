"""The OpenAPI document, built from the models that check requests."""

from typing import Any

from pydantic.json_schema import models_json_schema

from reglue_runtime.service import schema
from reglue_runtime.service.problem import MEDIA_TYPE

OPENAPI = "3.1.0"
TEMPLATE = "#/components/schemas/{model}"
FORMS = (schema.Request, schema.Response, schema.Bundles, schema.Health, schema.Problem)
REFUSALS = {
    400: "The request is not whole.",
    404: "There is no such bundle.",
    408: "The request arrived too slowly.",
    413: "The request is too large.",
    415: "The request is no JSON.",
    422: "The request is not of this form, or an example is not what the model reads.",
    429: "Too many examples wait; come back after the seconds of Retry-After.",
    503: "The service shuts down, or found no time; come back after the seconds of Retry-After.",
}


def describe_service(version: str) -> dict[str, Any]:  # Any: JSON
    _, definitions = models_json_schema(
        [(form, "validation") for form in FORMS], ref_template=TEMPLATE
    )
    predict = {
        "operationId": "predict",
        "summary": "Predict a list of examples",
        "requestBody": {"required": True, "content": _hold("Request")},
        "responses": {
            "200": {"description": "The predictions.", "content": _hold("Response")},
            **{str(status): _refuse(status) for status in REFUSALS},
        },
    }
    health = _answer("health", "Say whether requests are taken", _hold("Health"))
    health["responses"]["503"] = {"description": "It shuts down.", "content": _hold("Health")}
    metrics = {"text/plain": {"schema": {"type": "string"}}}
    return {
        "openapi": OPENAPI,
        "info": {"title": "Reglue", "version": version},
        "paths": {
            "/predict": {"post": predict},
            "/bundles": {"get": _answer("bundles", "Name the bundles", _hold("Bundles"))},
            "/health": {"get": health},
            "/metrics": {"get": _answer("metrics", "Count, for Prometheus", metrics)},
        },
        "components": {"schemas": definitions["$defs"]},
    }


def _hold(name: str, media_type: str = "application/json") -> dict[str, Any]:
    return {media_type: {"schema": {"$ref": TEMPLATE.format(model=name)}}}


def _refuse(status: int) -> dict[str, Any]:
    return {"description": REFUSALS[status], "content": _hold("Problem", MEDIA_TYPE)}


def _answer(name: str, summary: str, content: dict[str, Any]) -> dict[str, Any]:
    found = {"200": {"description": "It is.", "content": content}}
    return {"operationId": name, "summary": summary, "responses": found}
