/* SPDX-License-Identifier: MIT */
#pragma once

/* Bridge: carries the lines of MCP between our standard input and output and the system service. The framing
 * is the same on both sides, so a line passes as it is. A restart of the service is not the client's
 * business: what is not answered by then gets an error, the next line goes to the new one. */

/* What a connection leads to. A stand-in refuses every call and answers all else. */
typedef enum BridgePeer {
        BRIDGE_SERVICE,
        BRIDGE_OWN_SERVER,
        BRIDGE_STAND_IN,
} BridgePeer;

/* Who serves while the service does not. Both return a connection, or -errno. */
typedef struct BridgeServers {
        /* The service is lost, and system_socket_connect() says why: code and reason. */
        int (*replace)(void *userdata, int code, const char *reason, BridgePeer *ret_peer);
        /* A call is about to go to a stand-in: does somebody serve by now, or is there another reason?
         * -EALREADY: neither. Where the answer takes long it is not asked again for a second. */
        int (*look)(void *userdata, BridgePeer *ret_peer);
        void *userdata;
} BridgeServers;

/* Returns the exit status: 0 after the client's end of file or a signal. Takes fd, a connection to peer.
 * path: of the service's socket, borrowed. */
int bridge_run(int take_fd, BridgePeer peer, const char *path, const BridgeServers *servers);
