"""An HTTP connection to a hub: adds credentials, retries, and raises the hub's errors as this package's errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from envhub import __version__
from envhub.errors import BY_STATUS, ApiError, ConnectionFailed, EnvhubError, ServerError, UsageError
from envhub.protocol.base import ErrorBody, ErrorDetail
from envhub.protocol.placing.releases import HEADER as PROTOCOL_HEADER
from envhub.protocol.placing.releases import PROTOCOL
from envhub.protocol.traces import HEADER as TRACE_HEADER
from envhub.proxies import HOME

Model = TypeVar("Model", bound=BaseModel)
Params = Mapping[str, str | int | float | bool | Sequence[str] | None]
CHUNK = 1024 * 1024
RETRIED_STATUS = {502, 503, 504}  # of requests that may be sent twice
TOO_MANY = 429  # any request may be sent again: it was refused before anything was done
LONGEST_PAUSE_S = 60.0
IDEMPOTENT = {"GET", "HEAD", "PUT", "DELETE"}
HINTS = {
    401: "Log in with `hub login`, or set HUB_TOKEN.",
    404: "Check the name; private things of others look absent. `hub whoami` shows who you are.",
}


@dataclass(frozen=True)
class Retry:
    """How often and how patiently to retry: waits are base * 2**n seconds, at most `longest`.

    `notice` is called with the problem before each wait.
    """

    attempts: int = 5
    base: float = 0.5
    longest: float = 8.0
    sleep: Callable[[float], None] = time.sleep
    notice: Callable[[str], None] = lambda problem: None

    def wait(self, attempt: int, problem: str, retry_after: str = "") -> None:
        """Sleep after attempt number `attempt` (from 0); a Retry-After header wins, up to a minute."""
        self.notice(problem)
        seconds = min(self.base * 2**attempt, self.longest)
        self.sleep(min(float(retry_after), LONGEST_PAUSE_S) if retry_after.isdigit() else seconds)


class Connection:
    """Sends requests to one hub. `transport` replaces the network (tests use it to drive Django in-process).

    Raises UsageError for a token that cannot be sent in a header, an address that is none, and a proxy with an unknown
    scheme.
    """

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        transport: httpx.BaseTransport | None = None,
        retry: Retry | None = None,
        traceparent: str = "",
        timeout_s: float = 60.0,
    ) -> None:
        if token is not None and not (token.isascii() and token.isprintable()):
            raise UsageError("this is not a hub's token", hint="Copy all of it, or create a new one with `hub login`.")
        self.url = url.rstrip("/")
        self.token = token
        self._retry = retry or Retry()
        self._traceparent = traceparent
        self._traced: set[str] = set()
        headers = {"User-Agent": f"envhub/{__version__}", PROTOCOL_HEADER: str(PROTOCOL), "Accept": "application/json"}
        try:
            self._http = httpx.Client(
                base_url=self.url,
                transport=transport,
                mounts=HOME,
                headers=headers,
                timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, 10.0)),
            )
        except httpx.InvalidURL as error:
            raise UsageError(f"{self.url!r} is not the address of a hub: {error}") from error
        except ValueError as error:
            raise UsageError(
                f"this environment's proxy cannot be used: {error}",
                hint="Check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY: http://HOST:PORT, or socks5://HOST:PORT.",
            ) from error

    def close(self) -> None:
        """Close the sockets."""
        self._http.close()

    def get(self, path: str, answer: type[Model], /, **params: str | float | bool | Sequence[str] | None) -> Model:
        """GET `path` below /api/v1. Like every call here, raises ApiError or ConnectionFailed."""
        return self._parse(self.send("GET", path, params=params), answer)

    def post(
        self,
        path: str,
        body: BaseModel | None,
        answer: type[Model],
        /,
        *,
        repeatable: bool = False,
        **params: str | None,
    ) -> Model:
        """POST `body`. Unless `repeatable` (a second delivery does no harm), retries only what was surely not done."""
        return self._parse(self.send("POST", path, params=params, body=body, repeatable=repeatable), answer)

    def put(self, path: str, body: BaseModel | None, answer: type[Model]) -> Model:
        """PUT `body`."""
        return self._parse(self.send("PUT", path, body=body), answer)

    def patch(self, path: str, body: BaseModel, answer: type[Model]) -> Model:
        """PATCH with only those fields of `body` that were set."""
        return self._parse(self.send("PATCH", path, body=body, repeatable=True, only_set=True), answer)

    def delete(self, path: str, /, **params: str) -> None:
        """DELETE `path`. If a first attempt may have done it already, a second one that finds nothing is a success."""
        self.send("DELETE", path, params=params)

    def send(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: BaseModel | None = None,
        content: bytes | None = None,
        repeatable: bool = False,
        only_set: bool = False,
        timeout_s: float | None = None,
    ) -> httpx.Response:
        """Make one call with retries. `path` is below /api/v1, or a whole URL of this hub (a page's `next`).

        `content` is sent as bytes instead of a body; `timeout_s` replaces the default timeout of a minute.
        """
        kind = "application/json" if content is None else "application/octet-stream"
        if body is not None:
            content = (body.model_dump_json(exclude_unset=True) if only_set else _said(body)).encode()
        request = self._http.build_request(
            method,
            self._address(path),
            params=_given(params),
            content=content,
            headers={**self._credentials(), **self._trace(method, path), **({"Content-Type": kind} if content else {})},
            timeout=self._http.timeout if timeout_s is None else httpx.Timeout(timeout_s, connect=10.0),
        )
        response = self._attempts(request, retry_sent=repeatable or method in IDEMPOTENT)
        self._refuse_redirect(response)
        if response.is_error:
            raise api_error(response)
        return response

    @contextmanager
    def stream(
        self, url: str, *, headers: Mapping[str, str] | None = None, params: Params | None = None
    ) -> Iterator[httpx.Response]:
        """GET bytes from this hub or from a presigned URL; the token is sent only to this hub's API."""
        presigned = url.startswith(("http://", "https://"))
        sent = {**({} if presigned else self._credentials()), "Accept": "*/*", **(headers or {})}
        try:
            with self._opened(self._address(url), sent, _given(params)) as response:
                if response.has_redirect_location:
                    target = str(response.next_request.url) if response.next_request else ""
                    if not presigned:
                        self._refuse_redirect(response, to_same_path=True)
                    with self.stream(target, headers=headers) as final:
                        yield final
                    return
                if response.is_error:
                    response.read()
                    raise api_error(response)
                yield response
        except httpx.TransportError as error:
            raise connection_failed(self.url, error) from error

    @contextmanager
    def _opened(self, url: str, headers: Mapping[str, str], params: Params | None) -> Iterator[httpx.Response]:
        """GET without reading the body; pauses if the hub asks for it."""
        for attempt in range(self._retry.attempts):
            with self._http.stream("GET", url, headers=headers, params=params) as response:
                if attempt + 1 == self._retry.attempts or not _is_to_pause(response):
                    yield response
                    return
                response.read()
            self._pause(attempt, response)

    def pieces(self, url: str) -> Iterator[bytes]:
        """GET the bytes of something immutable, resuming after a broken connection."""
        done = attempt = 0
        while True:
            headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={done}-"} if done else {})}
            try:
                with self.stream(url, headers=headers) as response:
                    known = 0 if response.status_code == httpx.codes.PARTIAL_CONTENT else done
                    # without a chunk size, so that no received bytes are lost in a partly filled buffer
                    for piece in response.iter_bytes():
                        fresh, known = piece[known:], max(0, known - len(piece))
                        if fresh:
                            done, attempt = done + len(fresh), 0
                            yield fresh
                return
            except (ConnectionFailed, ServerError) as error:
                attempt += 1
                if attempt == self._retry.attempts:
                    raise
                self._retry.wait(attempt - 1, error.message)

    def save(self, url: str, target: Path, /, **params: str | float | bool | None) -> Path:
        """GET bytes into the file `target`, which is replaced once all have arrived; a pipe gets them as they come.

        Raises UsageError if its directory does not exist.
        """
        if not target.parent.is_dir():
            raise UsageError(f"there is no directory {target.parent}", hint="Create it first.")
        if target.exists() and not target.is_file():
            self._write(url, target, params)
            return target
        partial = target.with_name(f".{target.name}.partial")
        try:
            for attempt in range(self._retry.attempts):
                try:
                    self._write(url, partial, params)
                except (ConnectionFailed, ServerError) as error:
                    if attempt + 1 == self._retry.attempts:
                        raise
                    self._retry.wait(attempt, error.message)
                else:
                    return partial.replace(target)
            raise AssertionError("unreachable: the last attempt returns or raises")
        finally:
            partial.unlink(missing_ok=True)

    def _write(self, url: str, path: Path, params: Params) -> None:
        with self.stream(url, params=params) as response, path.open("wb") as sink:
            for piece in response.iter_bytes(CHUNK):
                sink.write(piece)

    def put_bytes(self, url: str, chunks: Callable[[], Iterator[bytes]], headers: Mapping[str, str]) -> None:
        """PUT a body to a presigned URL, without our token; `chunks` is called anew for each attempt."""
        for attempt in range(self._retry.attempts):
            last = attempt + 1 == self._retry.attempts
            problem: EnvhubError
            try:
                response = self._http.put(url, content=chunks(), headers=dict(headers), timeout=600.0)
            except httpx.TransportError as error:
                problem = connection_failed(url, error)
                if last:
                    raise problem from error
            else:
                if response.is_success:
                    return
                problem = api_error(response)
                # 500 may be S3's InternalError, which is worth a retry
                if last or response.status_code not in {*RETRIED_STATUS, TOO_MANY, 500}:
                    raise problem
            self._retry.wait(attempt, problem.message)

    def post_form(self, path: str, form: Mapping[str, str]) -> httpx.Response:
        """POST a form and return any response but a redirect, since the caller reads the 400s of RFC 8628."""
        response = self._attempts(self._http.build_request("POST", self._address(path), data=dict(form)))
        self._refuse_redirect(response)
        return response

    def _refuse_redirect(self, response: httpx.Response, *, to_same_path: bool = False) -> None:
        """Raise UsageError for a redirect, which is never followed with the token: the address is not the hub's own.

        `to_same_path`: only for one to the same path elsewhere; downloads are redirected to the storage.
        """
        if response.next_request is None:
            return
        to, base = response.next_request.url, httpx.URL(self.url).path.rstrip("/")
        host, path = f"{to.scheme}://{to.netloc.decode()}", response.request.url.path.removeprefix(base)
        if to.path.endswith(path):
            address = f"{host}{to.path.removesuffix(path)}"
            raise UsageError(
                f"{self.url} redirects to {address}",
                code="redirected",
                hint=f"Use that address: `hub login {address}`, or set HUB_URL={address}.",
            )
        if not to_same_path:
            raise UsageError(
                f"{self.url} redirects to {host}{to.path}",
                code="redirected",
                hint="Is HUB_URL the address of a hub? If a proxy asks for a login in front of it, let /api/ through.",
            )

    def _attempts(self, request: httpx.Request, *, retry_sent: bool = False) -> httpx.Response:
        may_be_done = False
        for attempt in range(self._retry.attempts):
            last = attempt + 1 == self._retry.attempts
            try:
                response = self._http.send(request)
            except httpx.TransportError as error:
                never_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
                problem = connection_failed(self.url, error)
                if last or not (retry_sent or never_sent):
                    raise problem from error
                may_be_done |= not never_sent
                self._retry.wait(attempt, problem.message)
                continue
            if may_be_done and request.method == "DELETE" and response.status_code == httpx.codes.NOT_FOUND:
                return httpx.Response(httpx.codes.NO_CONTENT, request=request)
            repeatable = retry_sent and response.status_code in RETRIED_STATUS
            if last or not (repeatable or _is_to_pause(response)):
                return response
            may_be_done |= repeatable
            self._pause(attempt, response)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _pause(self, attempt: int, response: httpx.Response) -> None:
        self._retry.wait(attempt, api_error(response).message, response.headers.get("retry-after", ""))

    def _parse(self, response: httpx.Response, answer: type[Model]) -> Model:
        try:
            return answer.model_validate_json(response.content)
        except ValidationError as error:
            raise ServerError(
                f"the hub's answer to {response.request.method} {response.request.url.path} cannot be parsed",
                code="bad_answer",
                hint=f"The hub and the client may have different versions. {error.errors()[0]['msg']}",
            ) from error

    def _address(self, path: str) -> str:
        """Return the URL of a path. ?, # and % are quoted as parts of the path; queries must be passed as params."""
        return path if path.startswith(("http://", "https://")) else f"/api/v1{quote(path)}"

    def _trace(self, method: str, path: str) -> dict[str, str]:
        """Return the trace header, for GETs only on a path's first call: polling during a run would fill the trace."""
        if not self._traceparent or (method == "GET" and path in self._traced):
            return {}
        if method == "GET":
            self._traced.add(path)
        return {TRACE_HEADER: self._traceparent}

    def _credentials(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


def _said(body: BaseModel) -> str:
    """Encode without fields that are None by default and unset, since a hub of an earlier release may not know them."""
    unsaid = {name for name, field in type(body).model_fields.items() if field.default is None}
    return body.model_dump_json(exclude={name for name in unsaid if getattr(body, name) is None})


def _given(params: Params | None) -> Params | None:
    return {key: value for key, value in (params or {}).items() if value is not None} or None


def connection_failed(url: str, error: httpx.TransportError) -> ConnectionFailed:
    """Describe a transport error for users; presigned URLs lose their signature."""
    reason = str(error) or type(error).__name__
    return ConnectionFailed(
        f"cannot reach {url.split('?')[0]}: {reason}", hint="Is the hub running? Set HUB_URL, or run `hub login URL`."
    )


def _is_to_pause(response: httpx.Response) -> bool:
    """Whether too much was asked for at once. A limit for an hour or a day is told at once instead."""
    wait = response.headers.get("retry-after", "")
    return response.status_code == TOO_MANY and not (wait.isdigit() and float(wait) > LONGEST_PAUSE_S)


def api_error(response: httpx.Response) -> ApiError:
    """Convert a response without success into an error."""
    status = response.status_code
    kind = BY_STATUS.get(status, ServerError if status >= 500 else ApiError)
    try:
        detail = ErrorBody.model_validate_json(response.content).error
    except ValidationError:
        text = response.text.strip()[:200] if "json" in response.headers.get("content-type", "") else ""
        answered = f"{response.request.url.host} answered {status} {response.reason_phrase}"
        hint = "Is HUB_URL the address of a hub?" if status == 404 else ""
        detail = ErrorDetail(code=kind.code, message=text or answered, hint=hint)
    error = kind(detail.message, code=detail.code, hint=detail.hint or HINTS.get(status, ""), fields=detail.fields)
    error.status = status
    return error
