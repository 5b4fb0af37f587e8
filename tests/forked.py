"""Processes forked from one that has imported what they run: to import it takes each a second, and much of a core.

For tests of what a process does when it is killed, interrupted or told nothing more; not for tests of how one starts.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

# Prepares, then forks with each request for arguments, which come with three handles, or says how a fork has ended.
SERVER = """
import atexit, gc, json, os, socket, sys
requests = socket.socket(fileno=int(sys.argv[1]))
preparation, program = sys.argv[2:]
exec(preparation, {})
gc.freeze()
while request := socket.recv_fds(requests, 1 << 16, 3):
    if not request[0]:
        os._exit(0)
    arguments, handles = json.loads(request[0]), request[1]
    if isinstance(arguments, int):
        ended, status = os.waitpid(arguments, os.WNOHANG)
        requests.send(json.dumps(os.waitstatus_to_exitcode(status) if ended else None).encode())
        continue
    child = os.fork()
    if child == 0:
        break
    for handle in handles:
        os.close(handle)
    requests.send(json.dumps(child).encode())
requests.close()
for number, handle in enumerate(handles):
    os.dup2(handle, number)
    os.close(handle)
sys.argv = ["-c", *arguments]
try:
    exec(program, {"__name__": "__main__"})
    code = 0
except SystemExit as end:
    code = end.code
except BaseException:
    sys.excepthook(*sys.exc_info())
    code = 1
atexit._run_exitfuncs()
sys.stdout.flush()
sys.stderr.flush()
os._exit(code or 0)
"""


class Server:
    """A process that has run ``preparation``, and forks others that run ``program``."""

    def __init__(self, preparation, program):
        self._requests, other_end = socket.socketpair()
        with other_end:
            command = [sys.executable, "-c", SERVER, str(other_end.fileno()), preparation, program]
            self._process = subprocess.Popen(command, pass_fds=[other_end.fileno()])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._requests.close()
        self._process.wait(timeout=60)

    def ask(self, request, handles=()):
        socket.send_fds(self._requests, [json.dumps(request).encode()], handles)
        answer = self._requests.recv(1 << 16)
        assert answer, "the process that forks has ended"
        return json.loads(answer)

    def start(self, *arguments):
        """Start a process."""
        return Forked(self, list(map(str, arguments)))


class Forked:
    """A process with three pipes, as ``subprocess.Popen`` has them."""

    def __init__(self, server, arguments):
        self._server, self.returncode = server, None
        (read_in, write_in), (read_out, write_out), (read_err, write_err) = (os.pipe() for _ in range(3))
        self.pid = server.ask(arguments, [read_in, write_out, write_err])
        for handle in (read_in, write_out, write_err):
            os.close(handle)
        self.stdin, self.stdout, self.stderr = os.fdopen(write_in, "w"), os.fdopen(read_out), os.fdopen(read_err)

    def poll(self):
        if self.returncode is None:
            self.returncode = self._server.ask(self.pid)
        return self.returncode

    def wait(self, timeout):
        stop = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > stop:
                raise subprocess.TimeoutExpired("a forked process", timeout)
            time.sleep(0.01)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout):
        """What it has printed, which must fit into the pipes."""
        late = threading.Timer(timeout, self.kill)
        late.start()
        try:
            with contextlib.suppress(BrokenPipeError):
                self.stdin.close()
            with self.stdout, self.stderr:
                out, err = self.stdout.read(), self.stderr.read()
            self.wait(timeout)
        finally:
            late.cancel()
        return out, err
