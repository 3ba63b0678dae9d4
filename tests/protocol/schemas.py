# SPDX-License-Identifier: MIT
"""The published schemas of every revision, and a listener that holds each message of the server against them.

The harness gives the listener everything that a test's clients send and receive; a message that fits no definition of
its revision fails the test that was running."""

import functools
import json
import pathlib
import threading

try:
    import jsonschema
except ImportError:
    jsonschema = None

LEGACY = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"

RESULTS = {"initialize": "InitializeResult", "ping": "EmptyResult", "tools/list": "ListToolsResult",
           "tools/call": "CallToolResult", "server/discover": "DiscoverResult"}
NOTIFICATIONS = {"notifications/progress": "ProgressNotification",
                 "notifications/subscriptions/acknowledged": "SubscriptionsAcknowledgedNotification"}
TASK_RESULTS = {"tasks/get": "GetTaskResult", "tasks/update": "UpdateTaskResult", "tasks/cancel": "CancelTaskResult"}
OURS = "notifications/mcp-exec/"  # only for a request that asks for them; no revision forbids further notifications


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
        errors = [f"{name}: {'/'.join(map(str, e.absolute_path))}: {e.message}"
                  for e in self._validator(name).iter_errors(message)]
        assert not errors, (errors, message)

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

    def sent(self, message):
        for m in message if isinstance(message, list) else [message]:
            if not isinstance(m, dict) or not isinstance(m.get("id"), (str, int)):
                continue
            params = m.get("params")
            meta = params.get("_meta") if isinstance(params, dict) else None
            named = meta.get(PREFIX + "protocolVersion") if isinstance(meta, dict) else None
            with self.lock:
                self.asked[repr(m["id"])] = m.get("method"), MODERN if isinstance(named, str) else None

    def received(self, message):
        if not jsonschema or Listener.n_paused:
            return
        try:
            for m in message if isinstance(message, list) else [message]:
                self._check(m)
                Listener.n_checked += 1
        except Exception as error:  # the reader of the messages goes on
            Listener.failures.append(error)

    def _check(self, m):
        with self.lock:
            method, version = self.asked.get(repr(m.get("id")), (None, None))
        if method == "initialize" and "result" in m:
            self.version = m["result"]["protocolVersion"]
        schema, tasks = schema_of(version or self.version), schema_of("ext-tasks")
        if "method" in m:
            self._check_notification(m, tasks)
        elif "error" in m:
            # Where no id could be read there is none to give back; only the last two revisions have a word for that.
            (schema if m.get("id") is not None else schema_of(MODERN)).is_error({k: v for k, v in m.items()
                                                                                 if k != "id" or v is not None})
        elif method in TASK_RESULTS:
            tasks.check(TASK_RESULTS[method], m["result"])
        elif "taskId" in m["result"]:
            tasks.check("CreateTaskResult", m["result"])
        else:
            schema.result(RESULTS.get(method, "Result"), m)

    def _check_notification(self, m, tasks):
        """Its revision is the one of a request that it does not name: it has to fit one that the client speaks."""
        assert "id" not in m, m
        if m["method"] == "notifications/tasks":
            tasks.check("TaskStatusNotification", m)
            return
        if m["method"].startswith(OURS):
            schema_of(self.version).check("JSONRPCNotification", m)
            return
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
        raise AssertionError(errors, m)
