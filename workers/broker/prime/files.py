"""The file routes of a sandbox: upload, download and reading parts of text files."""

from __future__ import annotations

from datetime import UTC, datetime

import aiohttp
from aiohttp import web
from envhub.protocol.base import JsonObject

from workers.broker.bodies import whole
from workers.broker.memory import MEMORY, body_size
from workers.broker.prime.service import SERVICE
from workers.broker.refusals import Refusal

MIB = 1024 * 1024
UPLOAD_LIMIT = 256 * MIB
READ_LIMIT = 10 * MIB  # for read-file; clients read this much of a job's output
WINDOW = 4 * MIB  # read at once by a download
PATH_LIMIT = 4096


async def upload(request: web.Request) -> web.Response:
    """Write the uploaded file to `path`."""
    held, path = request.app[SERVICE].living(request), _path(request)
    length = request.content_length
    if length is not None and length > UPLOAD_LIMIT + MIB:
        raise _too_large()
    async with request.app[MEMORY].hold(body_size(request, UPLOAD_LIMIT + MIB)):
        content = await _form_file(request)
        await held.put(path, content)
    done = datetime.now(UTC).isoformat()
    return web.json_response({"success": True, "path": path, "size": len(content), "timestamp": done})


async def download(request: web.Request) -> web.StreamResponse:
    """Stream a file of any size."""
    held, path = request.app[SERVICE].living(request), _path(request)
    async with request.app[MEMORY].hold(WINDOW):
        data, size = await held.window(path, 0, WINDOW)
        response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
        response.content_length = size
        await response.prepare(request)
        sent = 0
        try:
            while data and sent < size:
                await response.write(data[: size - sent])
                sent += len(data)
                if sent < size:
                    data, _ = await held.window(path, sent, WINDOW)
        finally:
            if sent < size and request.transport is not None:  # the file shrank; the client must not take it for whole
                request.transport.close()
        return response


async def read_file(request: web.Request) -> web.Response:
    """Return a file's text, or `length` bytes of it from `offset` (negative: from the end)."""
    held, path = request.app[SERVICE].living(request), _path(request)
    offset = whole(request, "offset", 0, least=-(2**62), most=2**62)
    length = whole(request, "length", -1, least=-1, most=READ_LIMIT)
    length = READ_LIMIT + 1 if length < 0 else length
    async with request.app[MEMORY].hold(length):
        data, total = await held.window(path, offset, length)
        if len(data) > READ_LIMIT:
            text = f"{path[:200]} has {total} bytes, more than {READ_LIMIT} at once; read a window or download it"
            raise Refusal(413, text)
        begin = max(0, total + offset) if offset < 0 else min(offset, total)
        answer: JsonObject = {
            "content": data.decode(errors="replace"),
            "size": len(data),
            "total_size": total,
            "offset": begin,
            "truncated": begin > 0 or begin + len(data) < total,
        }
        return web.json_response(answer)


def add_files(app: web.Application, base: str) -> None:
    app.router.add_post(f"{base}/upload", upload)
    app.router.add_get(f"{base}/download", download)
    app.router.add_get(f"{base}/read-file", read_file)


def _path(request: web.Request) -> str:
    path = request.query.get("path", "")
    if not path or "\0" in path or len(path) > PATH_LIMIT:
        raise Refusal(422, "path: name a file of the sandbox")
    return path


async def _form_file(request: web.Request) -> bytes:
    """Return the content of the form field "file". Raises Refusal."""
    if request.content_type != "multipart/form-data":
        raise Refusal(415, "send the file as multipart/form-data, in the field file")
    try:
        reader = await request.multipart()
        while (part := await reader.next()) is not None:
            if isinstance(part, aiohttp.BodyPartReader) and part.name == "file":
                return await _read(part)
            if isinstance(part, aiohttp.BodyPartReader):
                await _read(part)
    except (ValueError, AssertionError, aiohttp.ClientError) as error:
        raise Refusal(400, f"the form cannot be read: {str(error)[:200]}") from error
    raise Refusal(422, "the form has no field file")


async def _read(part: aiohttp.BodyPartReader) -> bytes:
    content = bytearray()
    while chunk := await part.read_chunk(256 * 1024):
        content += chunk
        if len(content) > UPLOAD_LIMIT:
            raise _too_large()
    return bytes(content)


def _too_large() -> Refusal:
    return Refusal(413, f"an upload may have {UPLOAD_LIMIT // MIB} MiB; split the file, or fetch it inside the sandbox")
