"""Answers to refused requests (RFC 9457)."""

from collections.abc import Mapping
from http import HTTPStatus

from starlette.responses import JSONResponse

MEDIA_TYPE = "application/problem+json"
CLOSE = {"Connection": "close"}


class ProblemError(Exception):
    """A refused request; `field` is a part of it, such as examples[2]."""

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

    def answer(self) -> JSONResponse:
        note = {"title": HTTPStatus(self.status).phrase, "status": self.status, "detail": str(self)}
        if self.field is not None:
            note["field"] = self.field
        return JSONResponse(note, self.status, self.headers, MEDIA_TYPE)
