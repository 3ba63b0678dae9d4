/* SPDX-License-Identifier: MIT */

/* mcp-exec serve: the system service, or a server started by hand. */

#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macro.h"
#include "base/settings.h"
#include "base/strv.h"
#include "config.h"
#include "server/apology.h"
#include "server/command.h"
#include "server/service.h"

static const char help_text[] =
        "Usage: mcp-exec serve [OPTION…]\n"
        "\n"
        "Serves MCP on the sockets that systemd hands over (mcp-exec.socket, mcp-exec-http.socket) and on "
        "those of\n"
        "--listen: HTTP on /mcp for TCP, lines for Unix sockets.\n"
        "\n"
        "Options:\n"
        "      --listen ADDRESS        HOST:PORT, [V6]:PORT, :PORT (every address), unix:PATH\n"
        "                              or proxy:PATH (HTTP of a proxy that names the user);\n"
        "                              may be repeated\n"
        "      --no-auth               Serve HTTP without a token: whoever reaches the port runs code\n"
        "      --launcher-socket PATH  The launcher's socket (default: " MCP_EXEC_LAUNCHER_SOCKET_PATH ";\n"
        "                              started by hand and not as root: the user's own launcher)\n"
        "      --prepare-directory PATH  The programs that prepare packages\n"
        "                              (default: " MCP_EXEC_LIBDIR "/prepare)\n"
        "      --token-file PATH       Named tokens and limits\n"
        "                              (default: " MCP_EXEC_TOKEN_FILE ")\n"
        "      --metadata-file PATH    OAuth metadata\n"
        "                              (default: " MCP_EXEC_METADATA_FILE ")\n"
        "  -v, --verbose               Say more on standard error or in the journal\n"
        "  -h, --help                  Show this help\n";

static int report(int error, const char *message, const char *otherwise) {
        if (message)
                log_error("%s", message);
        else
                (void) log_error_errno(error, "%s", otherwise);
        return COMMAND_FAILED;
}

/* The system's launcher admits root and the service's user. Anybody else has one of their own. What systemd
 * started is the service, also while the launcher's socket is missing: that must be said. */
static const char* choose_launcher(const ServeOptions *options) {
        if (options->launcher_socket_path)
                return options->launcher_socket_path;
        if (geteuid() == 0 || getenv("LISTEN_FDS") || access(MCP_EXEC_LAUNCHER_SOCKET_PATH, W_OK) == 0)
                return MCP_EXEC_LAUNCHER_SOCKET_PATH;
        return NULL;
}

static int add_sockets(ServiceSockets *sockets, const ServeOptions *options, const Settings *settings,
                       bool has_tokens) {
        _cleanup_free_ char *message = NULL;
        bool has_inherited_inet = service_sockets_have_inet(sockets);
        int r;

        STRV_FOREACH(address, options->listen) {
                r = service_sockets_listen(sockets, *address, &message);
                if (r < 0)
                        return report(r, message, "Cannot listen");
        }
        if (options->listens_by_variable && sockets->n_sockets == 0) {
                r = service_sockets_listen(sockets, settings->listen_address, &message);
                if (r < 0)
                        return report(r, message, "Cannot listen");
        }

        if (sockets->n_sockets == 0) {
                log_error("There is nothing to listen on: start it with \"systemctl start "
                          "mcp-exec.socket\", or say --listen ADDRESS");
                return COMMAND_USAGE;
        }
        /* With systemd's sockets the Unix socket is served all the same, and HTTP answers 503 with the
         * reason. */
        if (service_sockets_have_inet(sockets) && !has_inherited_inet && !settings->auth_token &&
            !has_tokens && !options->no_auth) {
                log_error("A TCP address is served with a token only: make one with \"mcp-exec token add "
                          "NAME\", or set MCP_EXEC_AUTH_TOKEN, or say --no-auth if everybody who reaches "
                          "the port may run code");
                return COMMAND_FAILED;
        }
        return COMMAND_OK;
}

static int serve(const ServeOptions *options, ServiceSockets *sockets) {
        _cleanup_(settings_freep) Settings *settings = NULL;
        _cleanup_(principals_freep) Principals *principals = NULL;
        _cleanup_free_ char *message = NULL;
        ServiceParameters parameters;
        const char *token_file;
        int r;

        parameters = (ServiceParameters) {
                .sockets = sockets,
                .launcher_socket_path = choose_launcher(options),
                .programs_directory = options->programs_directory,
                .no_auth = options->no_auth,
        };
        parameters.is_user = !parameters.launcher_socket_path;
        parameters.metadata_file = options->metadata_file ?:
                                   (parameters.is_user ? NULL : MCP_EXEC_METADATA_FILE);

        r = service_sockets_inherit(sockets, &message);
        if (r < 0)
                return report(r, message, "Cannot use the sockets that were handed over");

        token_file = options->token_file ?: (parameters.is_user ? NULL : MCP_EXEC_TOKEN_FILE);
        r = settings_load(parameters.is_user, &settings, &message);
        if (r >= 0)
                r = principals_new(token_file, &principals, &message);
        if (r < 0)
                return report(r, message, "Cannot read the configuration");
        parameters.settings = settings;
        parameters.principals = principals;

        r = add_sockets(sockets, options, settings, principals_access(principals)->n_tokens > 0);
        if (r != COMMAND_OK)
                return r;
        return service_run(&parameters);
}

int serve_main(const ServeOptions *options) {
        _cleanup_(service_sockets_done) ServiceSockets sockets = SERVICE_SOCKETS_INIT;
        int r;

        assert(options);

        r = serve(options, &sockets);
        if (r != COMMAND_OK && sockets.is_activated)
                apologise(&sockets);
        return r;
}

int serve_refuse(int status) {
        _cleanup_(service_sockets_done) ServiceSockets sockets = SERVICE_SOCKETS_INIT;
        _cleanup_free_ char *message = NULL;

        if (service_sockets_inherit(&sockets, &message) >= 0 && sockets.is_activated)
                apologise(&sockets);
        return status;
}

int command_serve(int argc, char **argv) {
        enum {
                OPTION_LISTEN = 0x100,
                OPTION_NO_AUTH,
                OPTION_LAUNCHER_SOCKET,
                OPTION_TOKEN_FILE,
                OPTION_METADATA_FILE,
                OPTION_PREPARE_DIRECTORY,
        };
        static const struct option table[] = {
                { "listen",          required_argument, NULL, OPTION_LISTEN          },
                { "no-auth",         no_argument,       NULL, OPTION_NO_AUTH         },
                { "launcher-socket", required_argument, NULL, OPTION_LAUNCHER_SOCKET },
                { "token-file",      required_argument, NULL, OPTION_TOKEN_FILE      },
                { "metadata-file",   required_argument, NULL, OPTION_METADATA_FILE   },
                { "prepare-directory", required_argument, NULL, OPTION_PREPARE_DIRECTORY },
                { "verbose",         no_argument,       NULL, 'v'                    },
                { "help",            no_argument,       NULL, 'h'                    },
                {},
        };
        _cleanup_strv_ char **listen = NULL;
        CommandLine line = {
                .argc = argc, .argv = argv, .name = "serve", .help = help_text, .options = table,
                .has_verbose = true,
        };
        ServeOptions options = {};
        int c, r;

        while ((c = command_next_option(&line)) >= 0)
                switch (c) {
                case OPTION_LISTEN:
                        r = strv_extend(&listen, optarg);
                        if (r < 0)
                                return log_oom(), serve_refuse(COMMAND_FAILED);
                        break;
                case OPTION_NO_AUTH:
                        options.no_auth = true;
                        break;
                case OPTION_LAUNCHER_SOCKET:
                        options.launcher_socket_path = optarg;
                        break;
                case OPTION_TOKEN_FILE:
                        options.token_file = optarg;
                        break;
                case OPTION_METADATA_FILE:
                        options.metadata_file = optarg;
                        break;
                case OPTION_PREPARE_DIRECTORY:
                        options.programs_directory = optarg;
                        break;
                }
        if (line.status != COMMAND_GOES_ON)
                return line.status == COMMAND_OK ? line.status : serve_refuse(line.status);

        options.is_verbose = line.is_verbose;
        options.listen = listen;
        return serve_main(&options);
}
