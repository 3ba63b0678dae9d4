/* SPDX-License-Identifier: MIT */
#pragma once

/* ClientCall: what our commands say as clients of a server of ours, one tools/call and what comes before. */

#include <stdbool.h>

#include "json/json.h"

#define CLIENT_CALL_ID 2 /* 1 is the handshake */

typedef struct ClientCall {
        const char *client, *tool;
        int (*write_arguments)(JsonWriter *w, const void *userdata); /* the object */
        const void *userdata;
        /* What is to come beside the reply: notifications of progress, raw output, files as a whole. */
        bool wants_progress, wants_output, wants_files;
} ClientCall;

/* Appends three lines that may be sent at once, for their order is kept: initialize, initialized and
 * tools/call. Returns 0 or -errno. */
int client_call_write(const ClientCall *c, Buffer *b);

/* For calls of tools that need none: the empty object. */
int client_call_no_arguments(JsonWriter *w, const void *userdata);

/* The text of a reply that is an error, of the protocol or of the tool; NULL: it is none. Borrowed. */
const char* client_call_error(const JsonValue *reply);
