"""The S3 backend, for production: presigned requests are bound to the SHA-256 checksum, so that the store itself
refuses other bytes. Works with all S3 stores that support checksums (AWS, MinIO, Ceph, Garage, moto)."""

from __future__ import annotations

import base64
import hashlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast
from uuid import UUID

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError
from envhub.protocol.base import Upload

from hub.core.errors import Invalid, NotFound, Unavailable
from hub.storage.backends.interface import Stored, accept_any
from hub.storage.disposition import attachment

S3Client: TypeAlias = Any  # boto3 creates its client classes at run time
CHUNK = 1024 * 1024
GB = 1024**3
ONE_CALL = TransferConfig(multipart_threshold=5 * GB, multipart_chunksize=GB)  # S3 accepts up to 5 GB in one call
_ABSENT = {"404", "NoSuchKey", "NotFound"}


def checksum(sha256: str) -> str:
    """Convert a hexadecimal SHA-256 to S3's base64."""
    return base64.b64encode(bytes.fromhex(sha256)).decode()


def make_client(*, region: str, endpoint_url: str, key_id: str = "", secret_key: str = "") -> S3Client:
    """Create a client. Missing credentials come from boto's own chain (environment, profile, instance role)."""
    config = Config(
        signature_version="s3v4",
        s3={"addressing_style": "path" if endpoint_url else "auto"},
        connect_timeout=5,
        read_timeout=60,
        retries={"max_attempts": 3, "mode": "standard"},
        request_checksum_calculation="when_required",  # otherwise boto binds a CRC32 of nothing to presigned PUTs
    )
    session = boto3.session.Session(
        key_id or None, secret_key or None
    )  # the default session is shared and keeps its first credentials
    return session.client("s3", region_name=region, endpoint_url=endpoint_url or None, config=config)


class S3Backend:
    """Implements `interface.Backend` in one bucket; keys are `blobs/ab/<sha256>`, inboxes `uploads/<holder>/`."""

    largest_upload = 5 * GB

    def __init__(self, *, bucket: str, region: str, endpoint_url: str, public_endpoint_url: str) -> None:
        self.bucket = bucket
        self.client = make_client(region=region, endpoint_url=endpoint_url)
        same = public_endpoint_url in ("", endpoint_url)
        self.signer = self.client if same else make_client(region=region, endpoint_url=public_endpoint_url)

    @staticmethod
    def key(sha256: str) -> str:
        """Return the object's key."""
        return f"blobs/{sha256[:2]}/{sha256}"

    def stat(self, sha256: str) -> Stored | None:
        """See interface."""
        with answering():
            head = self._head(self.key(sha256))
        return None if head is None else Stored(sha256, head["ContentLength"], head["LastModified"])

    def _head(self, key: str) -> Any:
        """Return the store's metadata of an object, or None; call it inside `answering`."""
        try:
            return self.client.head_object(Bucket=self.bucket, Key=key, ChecksumMode="ENABLED")
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in _ABSENT:
                return None
            raise

    @staticmethod
    def upload_key(sha256: str, holder: UUID) -> str:
        """Return the key of `sha256` in an inbox."""
        return f"uploads/{holder}/{sha256}"

    def upload_size(self, sha256: str, holder: UUID) -> int | None:
        """See interface."""
        with answering():
            head = self._head(self.upload_key(sha256, holder))
        return None if head is None else int(head["ContentLength"])

    def take_upload(self, sha256: str, holder: UUID, accept: Callable[[int], None] = accept_any) -> int | None:
        """See interface.

        The store copies the object. Its own checksum is trusted if it has one, else all bytes are read.
        """
        with answering():
            try:
                return self._take(self.upload_key(sha256, holder), sha256, accept)
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") not in _ABSENT:
                    raise
                return None  # another call has just taken it and emptied the inbox

    def _take(self, key: str, sha256: str, accept: Callable[[int], None]) -> int | None:
        head = self._head(key)
        if head is None:
            return None
        size = int(head["ContentLength"])
        accept(size)
        kept = head.get("ChecksumSHA256")
        actual = base64.b64decode(kept).hex() if kept else self._read_hash(key)
        if actual != sha256:
            raise Invalid("the bytes do not match their SHA-256", code="hash_mismatch", fields={"sha256": actual})
        source = {"Bucket": self.bucket, "Key": key}
        self.client.copy_object(CopySource=source, Bucket=self.bucket, Key=self.key(sha256))
        return size

    def drop_upload(self, sha256: str, holder: UUID) -> None:
        """See interface."""
        with answering():
            self.client.delete_object(Bucket=self.bucket, Key=self.upload_key(sha256, holder))

    def drop_old_uploads(self, before: datetime) -> None:
        """See interface."""
        with answering():
            for item in self._listed("uploads/"):
                if item["LastModified"] < before:
                    self.client.delete_object(Bucket=self.bucket, Key=item["Key"])

    def _listed(self, prefix: str) -> Iterator[dict[str, Any]]:
        for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix):
            yield from page.get("Contents", [])

    def _read_hash(self, key: str) -> str:
        digest = hashlib.sha256()
        body = self.client.get_object(Bucket=self.bucket, Key=key)["Body"]
        for chunk in body.iter_chunks(CHUNK):
            digest.update(chunk)
        return digest.hexdigest()

    def write(self, sha256: str, source: BinaryIO) -> int:
        """See interface. The bytes are spooled and hashed first, because S3 requires the checksum before the body."""
        with tempfile.TemporaryFile() as spool:
            digest = hashlib.sha256()
            while chunk := source.read(CHUNK):
                digest.update(chunk)
                spool.write(chunk)
            if digest.hexdigest() != sha256:
                raise Invalid(
                    "the bytes do not match their SHA-256", code="hash_mismatch", fields={"sha256": digest.hexdigest()}
                )
            size = spool.tell()
            spool.seek(0)
            with answering():
                self._put(sha256, spool, size)
        return size

    def _put(self, sha256: str, spool: BinaryIO, size: int) -> None:
        place = {"Bucket": self.bucket, "Key": self.key(sha256)}
        kind = {"ContentType": "application/octet-stream"}
        if size > ONE_CALL.multipart_threshold:
            self.client.upload_fileobj(spool, **place, ExtraArgs=kind, Config=ONE_CALL)
        else:
            bound = {"ContentLength": size, "ChecksumSHA256": checksum(sha256)}
            self.client.put_object(**place, **kind, **bound, Body=spool)

    def open(self, sha256: str) -> BinaryIO:
        """See interface."""
        with answering():
            body = self.client.get_object(Bucket=self.bucket, Key=self.key(sha256))["Body"]
        return cast("BinaryIO", body)

    @contextmanager
    def local_path(self, sha256: str) -> Iterator[Path]:
        """Download the bytes to a temporary file."""
        with tempfile.NamedTemporaryFile(prefix="hub-blob-") as file, self.open(sha256) as stream:
            while chunk := stream.read(CHUNK):
                file.write(chunk)
            file.flush()
            yield Path(file.name)

    def delete(self, sha256: str) -> None:
        """See interface."""
        with answering():
            self.client.delete_object(Bucket=self.bucket, Key=self.key(sha256))

    def every(self) -> Iterator[Stored]:
        """See interface."""
        with answering():
            for item in self._listed("blobs/"):
                yield Stored(item["Key"].rpartition("/")[2], item["Size"], item["LastModified"])

    def presign_put(self, sha256: str, size: int, *, holder: UUID, seconds: int) -> Upload:
        """See interface. Checksum, length and type are signed, so the store refuses any other bytes."""
        headers = {
            "x-amz-checksum-sha256": checksum(sha256),
            "Content-Length": str(size),
            "Content-Type": "application/octet-stream",
        }
        with answering():
            url = self.signer.generate_presigned_url(
                "put_object",
                Params={
                    "Bucket": self.bucket,
                    "Key": self.upload_key(sha256, holder),
                    "ChecksumSHA256": headers["x-amz-checksum-sha256"],
                    "ContentLength": size,
                    "ContentType": headers["Content-Type"],
                },
                ExpiresIn=seconds,
            )
        return Upload(sha256=sha256, url=url, headers=headers)

    def presign_get(self, sha256: str, *, filename: str, seconds: int) -> str:
        """See interface. The response's disposition and type are signed too, so that it is never shown inline."""
        with answering():
            url = self.signer.generate_presigned_url(
                "get_object",
                Params={
                    "Bucket": self.bucket,
                    "Key": self.key(sha256),
                    "ResponseContentDisposition": attachment(filename or sha256),
                    "ResponseContentType": "application/octet-stream",
                },
                ExpiresIn=seconds,
            )
        return str(url)

    def check(self) -> None:
        """See interface."""
        try:
            with answering():
                self.client.head_bucket(Bucket=self.bucket)
        except NotFound as error:
            raise Unavailable("the bucket of HUB_S3_BUCKET does not exist") from error


@contextmanager
def answering() -> Iterator[None]:
    """Translate boto's errors to the hub's. Raises NotFound, Unavailable."""
    try:
        yield
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code in _ABSENT:
            raise NotFound("the bytes are missing", code="blob_missing") from error
        raise Unavailable(f"object storage refused the request: {code}") from error
    except NoCredentialsError as error:
        raise Unavailable(
            "object storage has no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ) from error
    except BotoCoreError as error:
        raise Unavailable("object storage is not responding") from error
