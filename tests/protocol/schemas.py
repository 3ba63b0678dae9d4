# SPDX-License-Identifier: MIT
"""The published schemas of every revision, and a listener that holds each message of the server against them.

The harness gives the listener everything that a test's clients send and receive; a message that fits no definition of
its revision fails the test that was running."""

import contextlib
import functools
import json
import pathlib
import re
import threading

try:
    import jsonschema
except ImportError:
    jsonschema = None

LEGACY = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"

RESULTS = {"initialize": "InitializeResult", "ping": "EmptyResult", "tools/list": "ListToolsResult",
           "tools/call": "CallToolResult", "server/discover": "DiscoverResult",
           "subscriptions/listen": "SubscriptionsListenResult"}
NOTIFICATIONS = {"notifications/progress": "ProgressNotification", "notifications/cancelled": "CancelledNotification",
                 "notifications/subscriptions/acknowledged": "SubscriptionsAcknowledgedNotification"}
TASK_RESULTS = {"tasks/get": "GetTaskResult", "tasks/update": "UpdateTaskResult", "tasks/cancel": "CancelTaskResult"}
# Errors that the last revision describes by their code.
ERRORS = {-32700: "ParseError", -32600: "InvalidRequestError", -32601: "MethodNotFoundError", -32602: "InvalidParamsError",
          -32603: "InternalError", -32020: "HeaderMismatchError", -32021: "MissingRequiredClientCapabilityError",
          -32022: "UnsupportedProtocolVersionError"}
OURS = "notifications/mcp-exec/"  # only for a request that asks for them; no revision forbids further notifications
TELLING = ("jsonrpc", "method", "type", "resultType", "status", "code", "protocolVersion")
ENDPOINTS = ("/mcp", "/sse", "/messages")
LONGEST_READ = 1 << 20
WORD = re.compile(r"[\w./-]{1,60}")


def shape(value, key=None):
    """What a message is made of: names and types, and values only where they are words of the protocol. What a
    program printed is nobody's business, and a failure is in a log for ever."""
    if isinstance(value, dict):
        return {k if WORD.fullmatch(k) else "?": shape(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [shape(v) for v in value[:20]] + (["..."] if len(value) > 20 else [])
    if key in TELLING and (isinstance(value, int) or (isinstance(value, str) and WORD.fullmatch(value))):
        return value
    return type(value).__name__


def described(error):
    """Where a message breaks which rule, in words of the schema alone."""
    if error.context:
        return " or ".join(sorted({described(e) for e in error.context}))
    where = "/".join(str(p) if isinstance(p, int) or WORD.fullmatch(p) else "?" for p in error.absolute_path)
    lacks = sorted(set(error.validator_value) - set(error.instance)) if error.validator == "required" else ""
    return f"/{where}: {error.validator}{lacks and f' {lacks}'}"


class Schema:
    def __init__(self, version):
        path = pathlib.Path(__file__).with_name("schemas") / f"{version}.json"  # a revision's, or an extension's
        self.document = json.loads(path.read_text())
        self.key = "definitions" if "definitions" in self.document else "$defs"

    def has(self, name):
        return name in self.document[self.key]

    @functools.lru_cache(maxsize=None)
    def _validator(self, name):
        schema = {**self.document, "$ref": f"#/{self.key}/{name}"}
        if self.key == "definitions":  # draft-07 ignores what stands beside a $ref
            schema = {"definitions": self.document["definitions"], "allOf": [{"$ref": f"#/definitions/{name}"}]}
        kind = jsonschema.Draft7Validator if self.key == "definitions" else jsonschema.Draft202012Validator
        return kind(schema)

    def check(self, name, message):
        errors = [f"{name}: {described(e)}" for e in self._validator(name).iter_errors(message)]
        assert not errors, (errors, shape(message))

    def result(self, name, message):
        self.check("JSONRPCResultResponse" if self.has("JSONRPCResultResponse") else "JSONRPCResponse", message)
        self.check(name, message["result"])

    def is_error(self, message):
        self.check("JSONRPCErrorResponse" if self.has("JSONRPCErrorResponse") else "JSONRPCError", message)

    def error(self, message, code, name=None):
        self.is_error(message)
        assert message["error"]["code"] == code, message
        if name:  # some definitions are of the error alone, some of the whole message
            self.check(name, message if "error" in self.document[self.key][name]["properties"] else message["error"])


@functools.lru_cache(maxsize=None)
def schema_of(version):
    return Schema(version)


class Listener:
    """One client's conversation. Revisions are chosen as the server has to choose them: per request."""

    failures = []  # of all listeners, for the test that runs
    n_checked = 0
    n_paused = 0   # somebody else than our server speaks

    def __init__(self, version=None):
        self.version = version or "2025-03-26"  # what is assumed where nobody said anything
        self.asked = {}
        self.lock = threading.Lock()

    def told(self, problem):
        """One message is checked: None, or what is wrong with it."""
        if problem:
            Listener.failures.append(problem)
        else:
            Listener.n_checked += 1

    def sent(self, message):
        for m in message if isinstance(message, list) else [message]:
            if not isinstance(m, dict) or not isinstance(m.get("id"), (str, int)):
                continue
            params = m.get("params")
            meta = params.get("_meta") if isinstance(params, dict) else None
            named = meta.get(PREFIX + "protocolVersion") if isinstance(meta, dict) else None
            with self.lock:
                self.asked[repr(m["id"])] = m.get("method"), MODERN if isinstance(named, str) else None

    def sent_bytes(self, data):
        """Lines or a body, be it well-formed or not: what nobody can read has no id that an answer could name."""
        for line in data.splitlines() if len(data) < LONGEST_READ else ():
            with contextlib.suppress(ValueError, RecursionError):
                self.sent(json.loads(line))

    def received(self, message):
        if not jsonschema or Listener.n_paused:
            return
        try:
            if isinstance(message, list):  # one reply for a batch, which only one revision knows
                schema_of("2025-03-26").check("JSONRPCBatchResponse", message)
            for m in message if isinstance(message, list) else [message]:
                assert isinstance(m, dict), shape(m)
                self._check(m)
                self.told(None)
        except AssertionError as error:  # the reader of the messages goes on
            self.told(error)
        except Exception as error:
            self.told((type(error).__name__, shape(message)))

    def received_bytes(self, data):
        """One message; not UTF-8 or not JSON is a failure too."""
        try:
            message = json.loads(data.decode())
        except ValueError as error:
            if not Listener.n_paused:
                self.told(f"{type(error).__name__}: {len(data)} bytes that are no message")
            return
        self.received(message)

    def _check(self, m):
        with self.lock:
            method, version = self.asked.get(repr(m.get("id")), (None, None))
        if method == "initialize" and "result" in m:
            self.version = m["result"]["protocolVersion"]
        schema, tasks = schema_of(version or self.version), schema_of("ext-tasks")
        if "method" in m:
            self._check_notification(m, tasks)
        elif "error" in m:
            self._check_error(m, schema)
        elif method in TASK_RESULTS:
            tasks.check(TASK_RESULTS[method], m["result"])
        elif "taskId" in m["result"]:
            tasks.check("CreateTaskResult", m["result"])
        else:
            schema.result(RESULTS.get(method, "Result"), m)

    @staticmethod
    def _check_error(m, schema):
        # Where no id could be read there is none to give back; only the last two revisions have a word for that.
        if m.get("id") is None:
            schema, m = schema_of(MODERN), {k: v for k, v in m.items() if k != "id"}
        schema.is_error(m)
        name = ERRORS.get(m["error"]["code"]) if schema is schema_of(MODERN) else None
        if name:
            schema.error(m, m["error"]["code"], name)

    def _check_notification(self, m, tasks):
        """Its revision is the one of a request that it does not name: it has to fit one that the client speaks."""
        assert "id" not in m, shape(m)
        if m["method"] == "notifications/tasks":
            tasks.check("TaskStatusNotification", m)
            return
        if m["method"].startswith(OURS):
            schema_of(self.version).check("JSONRPCNotification", m)
            return
        with self.lock:
            spoken = {self.version} | {v for _, v in self.asked.values() if v}
        errors = []
        name = NOTIFICATIONS[m["method"]]
        for schema in [schema_of(v) for v in sorted(spoken) if schema_of(v).has(name)]:
            try:
                schema.check("JSONRPCNotification", m)
                schema.check(name, m)
                return
            except AssertionError as error:
                errors.append(error)
        raise AssertionError(errors, shape(m))


class Events:
    """The text of an event stream, as it comes in pieces; gives (kind, data) of each event that is complete."""

    def __init__(self):
        self.rest = b""

    def take(self, data):
        *events, self.rest = (self.rest + data.replace(b"\r\n", b"\n")).split(b"\n\n")
        for event in events:
            fields = [line.partition(b":")[::2] for line in event.split(b"\n")]
            kind = [value.strip() for name, value in fields if name == b"event"]
            lines = [value.removeprefix(b" ") for name, value in fields if name == b"data"]
            if lines:
                yield (kind or [b"message"])[-1].decode(), b"\n".join(lines)


def spoken(header):
    """The revision that a header names, if there is one of that name."""
    return header if header in [*LEGACY, MODERN] else None


def exchanged(request_headers, sent, status, headers, body, path="/mcp"):
    """One exchange over HTTP with a name in lower case for each header: all messages in the answer."""
    listener = Listener(spoken(request_headers.get("mcp-protocol-version")))
    listener.sent_bytes(sent)
    hear(listener, status, headers, body, path)


def is_no_message(status, body, path):
    """What else the service says in JSON, and only beside the endpoints: its metadata, and errors as those who look for
    OAuth expect them (RFC 6749 section 5.2)."""
    if path.partition("?")[0] in ENDPOINTS:
        return False
    try:
        told = json.loads(body)
    except ValueError:
        return False
    if not isinstance(told, dict):
        return False
    is_refusal = set(told) == {"error", "error_description"} and all(isinstance(v, str) for v in told.values())
    return is_refusal if status >= 400 else path.startswith("/.well-known/") and "resource" in told


def hear(listener, status, headers, body, path):
    """The messages in the answer of one exchange over HTTP, whose request the listener knows."""
    kind = headers.get("content-type", "").partition(";")[0].strip()
    if kind == "text/event-stream":
        for name, data in Events().take(body):
            if name == "message":
                listener.received_bytes(data)
    elif kind == "application/json" and body and not is_no_message(status, body, path):
        listener.received_bytes(body)
