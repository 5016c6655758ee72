"""What is answered to a request that is refused, as RFC 9457 has it."""

from collections.abc import Mapping
from http import HTTPStatus

from starlette.responses import JSONResponse

MEDIA_TYPE = "application/problem+json"
CLOSE = {"Connection": "close"}


class ProblemError(Exception):
    """A request that is refused.

    Args:
        status: of HTTP.
        detail: where, what was found, what was expected, what to do.
        field: of the request, such as examples[2].
        headers: of the answer.
    """

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
        """Return what is sent."""
        note = {
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": str(self),
        }
        if self.field is not None:
            note["field"] = self.field
        return JSONResponse(note, self.status, self.headers, MEDIA_TYPE)
