"""Secured sockets: TLS under the handshake, with certificates at both ends.

Nothing above knows of it: a secured socket behaves as a plain one, blocking or not. A read takes one record at most,
and all of it if there is room for `RECORD` bytes; what is not read yet stays in the kernel. So a selector tells of it
as it does of plain sockets.
"""

from __future__ import annotations

import errno
import socket
import ssl
from typing import Any

from datalog.errors import UsageProblem
from livelog.runtime.spark.tls import TLS

__all__ = ["RECORD", "Secured", "agree", "complaint", "context_of", "secure"]

RECORD = 16 << 10
"""The most bytes that one record of TLS carries."""


class Secured(ssl.SSLSocket):
    """A socket that speaks TLS, or not at all: `ssl.SSLSocket` goes on in plain text after `shutdown`.

    One that does not block raises `BlockingIOError` where a plain one does. What `send` was given then has to come
    first the next time: a part of its record may be on its way.
    """

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        count: Any = self._try(self.read, nbytes or len(buffer), buffer)  # into a buffer, a read returns a number
        return int(count)

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        data: bytes = self._try(self.read, buflen)
        return data

    def send(self, data: Any, flags: int = 0) -> int:
        return int(self._try(self.write, memoryview(data)[:RECORD]))

    def shutdown(self, how: int) -> None:
        socket.socket.shutdown(self, how)

    def _try(self, act: Any, *arguments: Any) -> Any:
        try:
            return act(*arguments)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError(errno.EAGAIN, "it would block") from None
        except ValueError:  # there is no TLS in it any more
            raise OSError(errno.EBADF, "the socket is closed") from None


def secure(sock: socket.socket, context: ssl.SSLContext, *, server: bool) -> Secured:
    """Take over a connected socket. Its `do_handshake` has still to be called. Raises OSError, and closes it then."""
    try:
        secured = context.wrap_socket(sock, server_side=server, do_handshake_on_connect=False)
    except (OSError, ValueError) as e:
        sock.close()
        raise OSError(errno.ENOTCONN, "it is gone") from e
    assert isinstance(secured, Secured)
    return secured


def complaint(e: OSError) -> str:
    """Why two could not agree on TLS, said of the other end, in a few words."""
    reason = getattr(e, "reason", None) or ""
    if isinstance(e, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted ({e.verify_message})"
    if "DID_NOT_RETURN_A_CERTIFICATE" in reason:
        return "it has no certificate"
    if "ALERT" in reason:  # what it told before it hung up
        told = reason.partition("ALERT_")[2].lower().replace("_", " ")
        return f"it does not accept the certificate of this end ({told})"
    if isinstance(e, ssl.SSLEOFError) or not isinstance(e, ssl.SSLError):
        return "it hung up before both had shown their certificates"
    return "it does not speak TLS as it should"


# --- certificates --------------------------------------------------------------------------------------------


def context_of(tls: TLS, *, server: bool) -> ssl.SSLContext:
    """What one end of a connection needs. Reads the files; raises `UsageProblem` if they do not serve."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # addresses are those that Spark happens to give
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Reads never have to write, nor writes to read: no new handshakes, and no tickets to return with.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    if server:
        context.num_tickets = 0
    for name, path in tls.paths().items():
        try:
            with open(path, "rb"):
                pass
        except OSError as e:
            raise UsageProblem(f"cannot read the {name} {path!r} for TLS: {e.strerror or e}") from None
    for name in ("authority", "certificate"):
        trusting = context if name == "authority" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            trusting.load_verify_locations(getattr(tls, name))
        except (OSError, ValueError):
            raise UsageProblem(f"the {name} {getattr(tls, name)!r} for TLS is no certificate in PEM format") from None
    try:
        context.load_cert_chain(tls.certificate, tls.key, password=lambda: b"")  # else OpenSSL would ask the terminal
    except (OSError, ValueError) as e:
        if getattr(e, "reason", None) == "KEY_VALUES_MISMATCH":
            raise UsageProblem(f"the key {tls.key!r} is not that of the certificate {tls.certificate!r}") from None
        raise UsageProblem(f"the key {tls.key!r} for TLS is no key in PEM format without a password") from None
    context.sslsocket_class = Secured
    return context


def agree(tls: TLS) -> None:
    """Let two ends with these files meet in memory; raises `UsageProblem` if one would not accept the other."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context_of(tls, server=False).wrap_bio(to_client, to_server)
    server = context_of(tls, server=True).wrap_bio(to_server, to_client, server_side=True)
    waiting = [client, server]
    try:
        while waiting:
            for end in list(waiting):
                try:
                    end.do_handshake()
                    waiting.remove(end)
                except ssl.SSLWantReadError:
                    pass
    except ssl.SSLCertVerificationError as e:
        wrong = f"does not vouch for the certificate {tls.certificate!r}: {e.verify_message}"
        raise UsageProblem(f"the authority {tls.authority!r} {wrong}") from None
    except ssl.SSLError as e:
        raise UsageProblem(f"the certificate {tls.certificate!r} does not serve for TLS: {e.reason}") from None
