/* The contract at the head of fulmar.h: each line of it that can be tried is tried here. */
#include <fulmar.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                                    \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static ful_event next(ful_endpoint *endpoint) {
    ful_event event = {.size = sizeof event};
    while (ful_event_next(endpoint, &event) == FUL_WOULDBLOCK) EXPECT(ful_wait(endpoint, 30000) == FUL_OK);
    return event;
}

static void nothing_comes_of_null(void) {
    ful_endpoint *endpoint = NULL;
    ful_config config = {.size = sizeof config};
    EXPECT(ful_endpoint_new(NULL, &endpoint, NULL) == FUL_ERR_ARGUMENT);
    EXPECT(ful_endpoint_new(&config, NULL, NULL) == FUL_ERR_ARGUMENT);
    EXPECT(ful_event_next(NULL, NULL) == FUL_ERR_ARGUMENT);
    EXPECT(ful_connect(NULL, "a:1", NULL, NULL) == FUL_ERR_ARGUMENT);
    EXPECT(ful_stream_read(NULL, NULL, 0, NULL) == FUL_ERR_ARGUMENT);
    EXPECT(ful_identity_generate(NULL) == FUL_ERR_ARGUMENT);
    EXPECT(ful_core_harvest(NULL, 0, NULL, 0, NULL, 0, NULL) == FUL_ERR_ARGUMENT);
    EXPECT(ful_conn_user(NULL) == NULL && ful_stream_code(NULL) == 0);
    ful_endpoint_free(NULL);
    ful_conn_free(NULL);
    ful_stream_free(NULL);
    ful_identity_free(NULL);
    ful_core_free(NULL);
}

static void settings_are_checked(void) {
    ful_endpoint *endpoint = NULL;
    ful_error error = {.size = sizeof error};
    ful_config config = {.size = sizeof config};
    config.flags = 1u << 30;
    EXPECT(ful_endpoint_new(&config, &endpoint, &error) == FUL_ERR_CONFIG && error.code == FUL_ERR_CONFIG);
    config.flags = FUL_SERVE;
    EXPECT(ful_endpoint_new(&config, &endpoint, &error) == FUL_ERR_CONFIG && strstr(error.text, "identity"));
    config.flags = 0;
    config.profile = "nonsense";
    EXPECT(ful_endpoint_new(&config, &endpoint, &error) == FUL_ERR_CONFIG && strstr(error.text, "nonsense"));
    config.profile = NULL;
    config.bind = "not an address";
    EXPECT(ful_endpoint_new(&config, &endpoint, &error) == FUL_ERR_CONFIG);
    config.bind = NULL;
    config.size = 3;
    EXPECT(ful_endpoint_new(&config, &endpoint, &error) == FUL_ERR_ARGUMENT && endpoint == NULL);
}

static void keys_travel_as_text(void) {
    ful_identity *identity, *again;
    uint8_t key[32], parsed[32];
    char line[128], pem[512];
    size_t len;
    EXPECT(ful_identity_generate(&identity) == FUL_OK && ful_identity_public_key(identity, key) == FUL_OK);
    EXPECT(ful_key_to_line(key, "a comment", line, 4, &len) == FUL_ERR_TOO_SMALL && len > 40 && len < sizeof line);
    EXPECT(ful_key_to_line(key, "a comment", line, sizeof line, &len) == FUL_OK && strlen(line) == len);
    EXPECT(ful_key_from_line(line, parsed) == FUL_OK && memcmp(key, parsed, 32) == 0);
    EXPECT(ful_key_from_line("fulmar-ed25519 nonsense", parsed) == FUL_ERR_KEYS);
    EXPECT(ful_identity_to_pem(identity, pem, sizeof pem, NULL) == FUL_OK);
    EXPECT(ful_identity_from_pem(pem, &again, NULL) == FUL_OK);
    EXPECT(ful_identity_public_key(again, parsed) == FUL_OK && memcmp(key, parsed, 32) == 0);
    ful_identity_free(again);
    ful_identity_free(identity);
}

static void a_home_remembers(const char *home) {
    ful_identity *identity;
    uint8_t key[32], other[32] = {9};
    int32_t verdict;
    size_t removed;
    ful_error error = {.size = sizeof error};
    EXPECT(ful_home_identity(home, 0, &identity, &error) == FUL_ERR_KEYS && error.text[0]);
    EXPECT(ful_home_identity(home, 1, &identity, &error) == FUL_OK);
    EXPECT(ful_identity_public_key(identity, key) == FUL_OK);
    EXPECT(ful_home_verdict(home, "example.org:1", key, &verdict, NULL) == FUL_OK && verdict == FUL_UNKNOWN);
    EXPECT(ful_home_trust(home, "example.org:1", key, NULL) == FUL_OK);
    EXPECT(ful_home_verdict(home, "example.org:1", key, &verdict, NULL) == FUL_OK && verdict == FUL_TRUSTED);
    EXPECT(ful_home_verdict(home, "example.org:1", other, &verdict, NULL) == FUL_OK && verdict == FUL_CHANGED);
    EXPECT(ful_home_forget(home, "example.org:1", &removed, NULL) == FUL_OK && removed == 1);
    EXPECT(ful_home_authorize(home, key, NULL, NULL) == FUL_OK);
    EXPECT(ful_home_trust(home, "no host!", key, NULL) == FUL_ERR_ARGUMENT);
    ful_identity_free(identity);
}

/* Both ends in this process. */
static void streams_end_as_they_should(void) {
    ful_identity *identity;
    ful_endpoint *client, *server;
    ful_conn *here, *there;
    ful_stream *mine, *theirs, *other;
    ful_config config = {.size = sizeof config};
    ful_error error = {.size = sizeof error};
    ful_stats stats = {.size = sizeof stats};
    uint8_t key[32];
    static uint8_t bytes[1 << 20];
    char address[64];
    size_t len;
    uint64_t code;
    int32_t result;
    EXPECT(ful_identity_generate(&identity) == FUL_OK && ful_identity_public_key(identity, key) == FUL_OK);
    config.bind = "127.0.0.1:0";
    config.identity = identity;
    config.trusted_keys = key;
    config.trusted_count = 1;
    config.send_buffer_bytes = 1 << 16;
    EXPECT(ful_endpoint_new(&config, &client, NULL) == FUL_OK);
    config.flags = FUL_SERVE;
    config.receive_window_bytes = 1 << 20;
    EXPECT(ful_endpoint_new(&config, &server, NULL) == FUL_OK);
    EXPECT(ful_accept(client, &there) == FUL_ERR_ARGUMENT && ful_accept(server, &there) == FUL_WOULDBLOCK);
    EXPECT(ful_endpoint_address(server, address, sizeof address, NULL) == FUL_OK);
    EXPECT(ful_connect(client, address, &key, &here) == FUL_OK);
    do result = ful_accept(server, &there);
    while (result == FUL_WOULDBLOCK && ful_wait(server, 30000) == FUL_OK && next(server).kind);
    EXPECT(result == FUL_OK);
    ful_event event = next(client);
    EXPECT(event.kind == FUL_EVENT_CONNECTED && event.conn == here && event.user == &key && event.stream == NULL);

    /* A writer that nobody reads is told to wait, and told when not. */
    EXPECT(ful_stream_open(here, 7, &mine) == FUL_ERR_ARGUMENT);
    EXPECT(ful_stream_open(here, FUL_BOTH_WAYS, &mine) == FUL_OK);
    while ((result = ful_stream_write(mine, bytes, sizeof bytes, &len)) != FUL_WOULDBLOCK || ful_stream_id(mine) != 0)
        EXPECT(result == FUL_OK && len > 0);
    while (ful_stream_accept(there, FUL_BOTH_WAYS, &theirs) == FUL_WOULDBLOCK) next(server);
    EXPECT(ful_stream_read(theirs, bytes, 0, &len) == FUL_ERR_ARGUMENT);
    int told = 0;
    while (!told) {
        while (ful_stream_read(theirs, bytes, sizeof bytes, &len) == FUL_WOULDBLOCK) {
            ful_event note = {.size = sizeof note};
            while (ful_event_next(client, &note) == FUL_OK) told |= note.kind == FUL_EVENT_WRITABLE && note.stream == mine;
            if (told) break;
            ful_wait(server, 10);
            while (ful_event_next(server, &note) == FUL_OK) continue;
        }
    }

    /* Reset and stop arrive with their codes. */
    EXPECT(ful_stream_reset(mine, 42) == FUL_OK);
    while ((result = ful_stream_read(theirs, bytes, sizeof bytes, &len)) != FUL_ERR_RESET) {
        EXPECT(result >= 0);
        if (result == FUL_WOULDBLOCK) next(server);
    }
    EXPECT(ful_stream_code(theirs) == 42);
    EXPECT(ful_stream_write(mine, bytes, 1, &len) == FUL_ERR_STREAM);
    EXPECT(ful_stream_stop(mine, 43) == FUL_OK);
    while ((result = ful_stream_write(theirs, bytes, 1, &len)) != FUL_ERR_STOPPED) {
        EXPECT(result >= 0);
        ful_wait(server, 10);
        ful_event note = {.size = sizeof note};
        while (ful_event_next(server, &note) == FUL_OK) continue;
    }
    EXPECT(ful_stream_code(theirs) == 43);
    ful_stream_free(theirs);
    ful_stream_free(mine);

    /* A handle that is freed takes its events along: none of the stream's comes after this. */
    EXPECT(ful_stream_open(here, FUL_ONE_WAY, &mine) == FUL_OK && ful_stream_read(mine, bytes, 1, &len) == FUL_ERR_STREAM);
    EXPECT(ful_stream_write(mine, bytes, 5, &len) == FUL_OK && len == 5 && ful_stream_finish(mine) == FUL_OK);
    while (ful_stream_accept(there, FUL_ONE_WAY, &other) == FUL_WOULDBLOCK) next(server);
    ful_stream_free(other);
    event.size = sizeof event;
    while (ful_event_next(server, &event) == FUL_OK) EXPECT(event.stream != other);
    ful_stream_free(mine);

    EXPECT(ful_conn_stats(here, &stats) == FUL_OK && stats.sent_bytes > 2000 && stats.size == sizeof stats);
    EXPECT(ful_conn_error(here, &error, NULL) == FUL_OK && error.code == FUL_OK);
    EXPECT(ful_conn_close(there, 7, (const uint8_t *)"enough", 6) == FUL_OK);
    while (next(client).kind != FUL_EVENT_CLOSED) continue;
    EXPECT(ful_conn_error(here, &error, &code) == FUL_OK && error.code == FUL_ERR_CLOSED && code == 7);
    EXPECT(strstr(error.text, "enough"));
    EXPECT(ful_stream_open(here, FUL_ONE_WAY, &mine) == FUL_ERR_CLOSED);
    ful_conn_free(there);
    ful_endpoint_free(server);
    ful_endpoint_free(client);
    /* After its endpoint a handle is still one. */
    EXPECT(ful_stream_open(here, FUL_ONE_WAY, &mine) == FUL_ERR_CLOSED);
    ful_conn_free(here);
    ful_identity_free(identity);
}

/* Nobody there, and a stranger. */
static void failures_are_events(void) {
    ful_endpoint *client;
    ful_conn *conn, *freed;
    ful_config config = {.size = sizeof config};
    ful_error error = {.size = sizeof error};
    config.bind = "127.0.0.1:0";
    config.handshake_timeout_ms = 2000;
    EXPECT(ful_endpoint_new(&config, &client, NULL) == FUL_OK);
    EXPECT(ful_connect(client, "127.0.0.1:1", NULL, &conn) == FUL_OK);
    EXPECT(ful_connect(client, "127.0.0.1:1", NULL, &freed) == FUL_OK);
    ful_conn_free(freed);
    EXPECT(ful_conn_close(conn, 0, NULL, 0) == FUL_WOULDBLOCK);
    ful_event event = next(client);
    EXPECT(event.kind == FUL_EVENT_CLOSED && event.conn == conn);
    EXPECT(ful_conn_error(conn, &error, NULL) == FUL_OK && error.code < 0 && error.text[0]);
    ful_conn_free(conn);
    ful_endpoint_free(client);
}

int main(int argc, char **argv) {
    EXPECT(argc == 2 && ful_abi() == FUL_ABI);
    nothing_comes_of_null();
    settings_are_checked();
    keys_travel_as_text();
    a_home_remembers(argv[1]);
    streams_end_as_they_should();
    failures_are_events();
    puts("kept");
    return 0;
}
