"""Addresses on which a process and those that it has started wait for connections."""

import psutil


def addresses():
    """Of this process and all below it: pairs of a host and a port."""
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    sockets = [socket for process in family for socket in process.net_connections("tcp")]
    return {tuple(socket.laddr) for socket in sockets if socket.status == psutil.CONN_LISTEN}


def beyond_this_machine(found):
    """Those that other machines can reach; one of IPv4 may be written as one of IPv6."""
    return {
        (host, port) for host, port in found if not host.removeprefix("::ffff:").startswith("127.") and host != "::1"
    }
