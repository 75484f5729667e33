/* The protocol without I/O: a client and a server in one process, joined by a path that loses every twentieth batch. No
 * socket, no clock and no thread: time is a number that this program moves. */
#include <fulmar.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOTAL 3000000u
static uint8_t buffer[4 * 65536];
static uint64_t now = 1700000000000000000u;
static unsigned batches, lost;

static void check(int32_t code, const char *what) {
    if (code >= 0) return;
    fprintf(stderr, "%s: %s\n", what, ful_error_text(code));
    exit(1);
}

/* Carries what one end has to send to the other; whether there was something. */
static int carry(ful_core *from, ful_core *to, const ful_address *source) {
    ful_transmit out[16];
    size_t count = 0, at;
    check(ful_core_harvest(from, now, buffer, sizeof buffer, out, 16, &count), "harvest");
    for (at = 0; at < count; at++) {
        if (++batches % 20 == 0) {
            lost++;
            continue;
        }
        check(ful_core_feed(to, now, source, out[at].ecn, buffer + out[at].offset, out[at].bytes, out[at].segment_bytes), "feed");
    }
    return count > 0;
}

int main(void) {
    static uint8_t data[65536];
    const ful_address client_at = {.ip = {127, 0, 0, 1}, .family = 4, .port = 1111};
    const ful_address server_at = {.ip = {127, 0, 0, 1}, .family = 4, .port = 2222};
    ful_config config = {.size = sizeof config};
    ful_core_event event = {.size = sizeof event};
    ful_stats stats = {.size = sizeof stats};
    ful_identity *identity;
    ful_core *client, *server;
    uint8_t key[32], seen[32];
    uint64_t conn, accepted = 0, stream = 0, at, other;
    uint32_t sent = 0, received = 0;
    int32_t code;
    int finished = 0, over = 0;
    size_t len;

    check(ful_identity_generate(&identity), "key");
    check(ful_identity_public_key(identity, key), "key");
    config.trusted_keys = key;
    config.trusted_count = 1;
    check(ful_core_new(&config, NULL, &client, NULL), "client");
    config.identity = identity;
    config.flags = FUL_SERVE | FUL_LET_ANYBODY_IN;
    check(ful_core_new(&config, NULL, &server, NULL), "server");
    check(ful_core_connect(client, now, &server_at, &conn), "connect");

    while (!over) {
        int moved = carry(client, server, &client_at);
        moved |= carry(server, client, &server_at);
        while (ful_core_event_next(client, &event) == FUL_OK) {
            if (event.kind == FUL_EVENT_CLOSED) {
                fprintf(stderr, "closed: %s\n", ful_error_text(event.error));
                return 1;
            }
            if (event.kind == FUL_EVENT_CONNECTED) check(ful_core_stream_open(client, conn, FUL_ONE_WAY, &stream), "open");
        }
        while (event.kind && stream && sent < TOTAL) {
            size_t piece = TOTAL - sent < sizeof data ? TOTAL - sent : sizeof data;
            memset(data, 7, piece);
            code = ful_core_stream_write(client, conn, stream, data, piece, &len);
            if (code == FUL_WOULDBLOCK) break;
            check(code, "write");
            sent += (uint32_t)len;
        }
        if (sent == TOTAL && !finished) {
            check(ful_core_stream_finish(client, conn, stream), "finish");
            finished = 1;
        }
        while (ful_core_event_next(server, &event) == FUL_OK)
            if (event.kind == FUL_EVENT_ACCEPT) accepted = event.conn;
        if (accepted && ful_core_stream_accept(server, accepted, FUL_ONE_WAY, &other) == FUL_OK && received == 0) {
            /* The number is the same at both ends. */
            if (other != stream) return 1;
        }
        while (accepted && stream && (code = ful_core_stream_read(server, now, accepted, stream, data, sizeof data, &len)) != FUL_WOULDBLOCK) {
            if (code == FUL_END) over = 1;
            if (code != FUL_OK) break;
            if (data[0] != 7 || data[len - 1] != 7) return 1;
            received += (uint32_t)len;
        }
        if (!moved) { /* Nothing is to be done before the next timer of either. */
            uint64_t next = UINT64_MAX;
            if (ful_core_timeout(client, &at) == FUL_OK && at < next) next = at;
            if (ful_core_timeout(server, &at) == FUL_OK && at < next) next = at;
            if (next > now) now = next;
            check(ful_core_expire(client, now), "expire");
            check(ful_core_expire(server, now), "expire");
        }
    }
    check(ful_core_peer_key(client, conn, seen), "peer's key");
    check(ful_core_stats(client, conn, &stats), "stats");
    printf("%u bytes; batches lost: %s; key: %s\n", received, lost ? "some" : "none", memcmp(key, seen, 32) ? "another" : "the server's");
    check(ful_core_close(client, now, conn, 0), "close");
    carry(client, server, &client_at);
    ful_core_free(client);
    ful_core_free(server);
    ful_identity_free(identity);
    return 0;
}
