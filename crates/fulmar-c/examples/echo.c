/* A server that sends back what it gets, and a client that asks it: `echo` serves, `echo HOST:PORT KEY TEXT` asks. */
#include <fulmar.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int32_t code, const ful_error *error) {
    if (code < 0) {
        fprintf(stderr, "%s: %s\n", ful_error_text(code), error ? error->text : "");
        exit(1);
    }
}

static void serve(ful_endpoint *endpoint) {
    ful_event event = {.size = sizeof event};
    ful_conn *conn;
    ful_stream *stream;
    static uint8_t bytes[65536];
    size_t len, written;
    for (;;) {
        while (ful_event_next(endpoint, &event) == FUL_WOULDBLOCK) ful_wait(endpoint, -1);
        switch (event.kind) {
        case FUL_EVENT_ACCEPT:
            while (ful_accept(endpoint, &conn) == FUL_OK) continue;
            break;
        case FUL_EVENT_STREAM_OPENED:
            while (ful_stream_accept(event.conn, FUL_BOTH_WAYS, &stream) == FUL_OK) continue;
            break;
        case FUL_EVENT_READABLE: /* As much as one window holds fits; a server for more keeps what was not written. */
            while (ful_stream_read(event.stream, bytes, sizeof bytes, &len) == FUL_OK)
                if (ful_stream_write(event.stream, bytes, len, &written) != FUL_OK || written < len) exit(1);
            if (ful_stream_read(event.stream, bytes, sizeof bytes, &len) != FUL_END) break;
            ful_stream_finish(event.stream);
            ful_stream_free(event.stream);
            break;
        case FUL_EVENT_CLOSED:
            ful_conn_free(event.conn);
            return; /* One client is enough for an example. */
        }
    }
}

static void ask(ful_endpoint *endpoint, const char *host, const char *text) {
    ful_error error = {.size = sizeof error};
    ful_event event = {.size = sizeof event};
    ful_conn *conn;
    ful_stream *stream;
    uint8_t bytes[4096];
    size_t len;
    check(ful_connect(endpoint, host, NULL, &conn), NULL);
    for (;;) {
        while (ful_event_next(endpoint, &event) == FUL_WOULDBLOCK) ful_wait(endpoint, -1);
        if (event.kind == FUL_EVENT_CLOSED) {
            ful_conn_error(conn, &error, NULL);
            check(error.code, &error);
        } else if (event.kind == FUL_EVENT_CONNECTED) {
            check(ful_stream_open(conn, FUL_BOTH_WAYS, &stream), NULL);
            check(ful_stream_write(stream, (const uint8_t *)text, strlen(text), &len), NULL);
            check(ful_stream_finish(stream), NULL);
        } else if (event.kind == FUL_EVENT_READABLE) {
            int32_t code;
            while ((code = ful_stream_read(stream, bytes, sizeof bytes, &len)) == FUL_OK) fwrite(bytes, 1, len, stdout);
            check(code, NULL);
            if (code == FUL_END) break;
        }
    }
    ful_stream_free(stream);
    check(ful_conn_close(conn, 0, NULL, 0), NULL);
    ful_conn_free(conn);
}

int main(int argc, char **argv) {
    ful_error error = {.size = sizeof error};
    ful_config config = {.size = sizeof config};
    ful_identity *identity;
    ful_endpoint *endpoint;
    uint8_t key[32];
    char address[64], line[128];
    check(ful_identity_generate(&identity), NULL);
    config.identity = identity;
    config.bind = "127.0.0.1:0";
    if (argc == 4) {
        check(ful_key_from_line(argv[2], key), NULL);
        config.trusted_keys = key;
        config.trusted_count = 1;
    } else {
        config.flags = FUL_SERVE | FUL_LET_ANYBODY_IN;
    }
    check(ful_endpoint_new(&config, &endpoint, &error), &error);
    if (argc == 4) {
        ask(endpoint, argv[1], argv[3]);
    } else {
        check(ful_identity_public_key(identity, key), NULL);
        check(ful_key_to_line(key, NULL, line, sizeof line, NULL), NULL);
        check(ful_endpoint_address(endpoint, address, sizeof address, NULL), NULL);
        printf("%s\n%s\n", address, line);
        fflush(stdout);
        serve(endpoint);
    }
    ful_endpoint_wait_idle(endpoint, 1000);
    ful_endpoint_free(endpoint);
    ful_identity_free(identity);
    return 0;
}
