// SPDX-License-Identifier: MIT
// Two real clients on every transport each of them has, against one server.
//
//     node clients.mjs '{"urls": {SESSION: …}, "token": …, "stdio": [[NAME, COMMAND, ARGUMENT…]…], "seconds": 90,
//                        "audited": true}'
//
// An argument "{client}" is the session's name. Prints one JSON object a line: {"test", "verdict", "seconds", "message"}.
// Modules are found beside NODE_MODULES.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";

const settings = JSON.parse(process.argv[2]);
const require = createRequire(process.env.NODE_MODULES + "/");
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const PATIENCE = { timeout: 200_000 };
const MODERN = "2026-07-28";

const sdk1 = {
    ...(await load("@modelcontextprotocol/sdk/client/index.js")),
    ...(await load("@modelcontextprotocol/sdk/client/stdio.js")),
    ...(await load("@modelcontextprotocol/sdk/client/streamableHttp.js")),
    ...(await load("@modelcontextprotocol/sdk/client/sse.js")),
    call: (client, parameters, options) => client.callTool(parameters, undefined, options),
};
const client2 = {
    ...(await load("@modelcontextprotocol/client")),
    ...(await load("@modelcontextprotocol/client/stdio")),
    call: (client, parameters, options) => client.callTool(parameters, options),
};

const transports = {
    http: (sdk, name) => new sdk.StreamableHTTPClientTransport(new URL(settings.urls[name] + "/mcp"), withToken()),
    sse: (sdk, name) => new sdk.SSEClientTransport(new URL(settings.urls[name] + "/sse"), withToken()),
};
for (const [name, command, ...args] of settings.stdio)
    transports[name] = (sdk, session) => new sdk.StdioClientTransport(
        { command, args: args.map((a) => a === "{client}" ? session : a), stderr: "inherit" });

function withToken() {
    return settings.token ? { requestInit: { headers: { Authorization: "Bearer " + settings.token } } } : {};
}

async function report(test, run) {
    const begin = performance.now();
    let verdict = "pass", message = "";
    try {
        await run();
    } catch (error) {
        verdict = "fail";
        message = String(error?.stack ?? error).slice(0, 3000);
    }
    console.log(JSON.stringify({ test, verdict, seconds: (performance.now() - begin) / 1000, message }));
}

class Session {
    constructor(name, sdk, transport, mode) {
        Object.assign(this, { name, sdk, transport, mode });
        this.identity = "client-" + name.replaceAll(".", "-");
    }

    async connect() {
        const options = this.mode ? { versionNegotiation: { mode: this.mode } } : {};
        this.client = new this.sdk.Client({ name: this.identity, version: "1" }, options);
        await this.client.connect(transports[this.transport](this.sdk, this.name));
        const version = this.client.getNegotiatedProtocolVersion?.();
        if (version)
            assert.equal(version === MODERN, this.isModern, `negotiated ${version}`);
    }

    get isModern() {
        return this.mode !== undefined && this.mode !== "legacy";
    }

    async exec(code, options = {}, more = {}) {
        const result = await this.sdk.call(this.client, { name: "exec", arguments: { code, ...more } },
                                           { ...PATIENCE, ...options });
        assert(!result.isError, JSON.stringify(result.content));
        return result.structuredContent;
    }

    // A call far longer than these clients wait by themselves, kept alive by its progress.
    async longCall() {
        const seen = [];
        const result = await this.exec(
            `import time\nfor i in range(${settings.seconds}):\n    time.sleep(1)\n    print("second", i, flush=True)\n`,
            { timeout: 40_000, resetTimeoutOnProgress: true, maxTotalTimeout: 400_000,
              onprogress: (p) => seen.push(p) },
            { timeout_s: 280 });
        assert.equal(result.status, "ok");
        assert(result.stdout.endsWith(`second ${settings.seconds - 1}\n`), result.stdout.slice(-200));
        assert(seen.length >= settings.seconds / 15, `${seen.length} notifications of progress`);
        for (let i = 1; i < seen.length; i++)
            assert(seen[i].progress > seen[i - 1].progress, "progress that does not grow");
        assert(seen.some((p) => /second \d+/.test(p.message ?? "")), "no line of output in the progress");
    }

    async list() {
        const { tools } = await this.client.listTools();
        assert.deepEqual(tools.map((t) => t.name).filter((n) => /^(exec|get_run|cancel_run)$/.test(n)),
                         ["exec", "get_run", "cancel_run"]);
    }

    async call() {
        const result = await this.exec("import sys\nprint('α', 6 * 7, sys.stdin.read())", {}, { stdin: "x\n" });
        assert.equal(result.stdout, "α 42 x\n\n");
        assert.equal(result.exit_code, 0);
        const bad = await this.sdk.call(this.client, { name: "exec", arguments: { code: 1 } }, PATIENCE)
            .catch((error) => ({ isError: true, error }));
        assert(bad.isError, "a number for code was taken");
    }

    async cancelled() {
        const stop = new AbortController();
        const call = this.exec("import time\ntime.sleep(250)", { signal: stop.signal }, { timeout_s: 280 });
        setTimeout(() => stop.abort("no longer wanted"), 1500);
        await assert.rejects(call);
        assert.equal((await this.exec("print('next')")).stdout, "next\n");
        if (!settings.audited || this.transport === "own")
            return;
        const journal = ["-o", "cat", "--no-pager", "MCP_EXEC_CLIENT=" + this.identity];
        for (let i = 0; ; i++) {
            const { stdout } = await promisify(execFile)("journalctl", journal);
            if (/: cancelled/.test(stdout))
                return;
            assert(i < 50, "the journal knows of no cancelled run:\n" + stdout);
            await sleep(100);
        }
    }

    // One reply shows a part of it, with a way to all of it.
    async large() {
        const line = "0123456789".repeat(10) + "\n", text = line.repeat(Math.ceil(200_000 / line.length));
        const result = await this.exec(`for _ in range(${text.length / line.length}): print("0123456789" * 10)`);
        assert.equal(result.stdout_bytes, text.length);
        assert(result.truncated && result.stdout.length >= 30_000);
        let all = "";
        for (let offset = 0; offset !== undefined;) {
            const page = await this.sdk.call(this.client, { name: "get_run", arguments: { run_id: result.run_id, offset } },
                                             PATIENCE);
            assert(!page.isError, JSON.stringify(page.content));
            all += page.structuredContent.stdout;
            offset = page.structuredContent.next_offset;
        }
        assert.equal(all, text);
    }

    async parallel() {
        const numbers = [...Array(50).keys()];
        const results = await Promise.all(numbers.map((i) => this.exec(`print("reply", ${i})`)));
        assert.deepEqual(results.map((r) => r.stdout), numbers.map((i) => `reply ${i}\n`));
    }
}

const sessions = [];
for (const transport of Object.keys(transports)) {
    sessions.push(new Session(`sdk1.${transport}`, sdk1, transport));
    for (const mode of transport === "sse" ? ["legacy"] : ["legacy", "auto", { pin: MODERN }])
        sessions.push(new Session(`client2.${transport}.${mode.pin ? "pinned" : mode}`, client2, transport, mode));
}

const long = [];
for (const session of sessions) {
    await report(`${session.name}.connect`, () => session.connect());
    long.push(report(`${session.name}.long_call_with_progress`, () => session.longCall()));
}
for (const session of sessions)
    for (const name of ["list", "call", "cancelled", "large", "parallel"])
        await report(`${session.name}.${name}`, () => session[name]());
await Promise.all(long);
for (const session of sessions)
    await report(`${session.name}.close`, () => session.client.close());
process.exit(0);
