"""Servers on this machine that stand for object stores and the web."""

import contextlib
import http.server
import logging
import re
import threading

SECRET = "wJalrXUtnFEMI7MDENG"


@contextlib.contextmanager
def s3_server(patch):
    """An S3 with an empty bucket called "bucket"; yields its address. The environment says how to reach it."""
    import boto3
    from moto.server import ThreadedMotoServer

    from probi import _stores

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    address = "http://{}:{}".format(*server.get_host_and_port())
    # No file of this machine's user, and no request for the keys of a virtual machine.
    for name, value in {
        "AWS_ENDPOINT_URL": address, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "me",
        "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/nowhere",
        "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
    }.items():  # fmt: skip
        patch.setenv(name, value)
    patch.delenv("AWS_PROFILE", raising=False)
    _stores._native_store.cache_clear()
    boto3.client("s3", endpoint_url=address).create_bucket(Bucket="bucket")
    try:
        yield address
    finally:
        server.stop()
        _stores._native_store.cache_clear()


class _Ranges(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, also parts of them, for those who know the key."""

    def do_GET(self):
        self._answer(True)

    def do_HEAD(self):
        self._answer(False)

    def _answer(self, with_body):
        path, _, query = self.path.partition("?")
        file = self.server.folder / path.lstrip("/")
        if not file.is_file() or query != f"key={SECRET}":
            self.send_error(404 if query else 403)
            return
        data = file.read_bytes()
        part = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        start, stop = (int(part[1]), int(part[2] or len(data)) + 1) if part else (0, len(data))
        body = data[start:stop]
        self.send_response(206 if part else 200)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(body)))
        if part:
            self.send_header("Content-Range", f"bytes {start}-{start + len(body) - 1}/{len(data)}")
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def web_server(folder):
    """A web server with the files of a folder; yields its address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Ranges)
    server.folder = folder
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
