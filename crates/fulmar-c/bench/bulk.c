/* How fast one connection moves bytes over loopback: bulk driver|core SECONDS. `driver` lets the library drive its
 * sockets, with `core` they are this program's. A thread for each end, one stream; the line that it writes is for
 * scripts/bench-bindings. */
#define _GNU_SOURCE
#include <fulmar.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

enum { PIECE = 1 << 18, BATCH = 16, FED_AT_ONCE = 4, DATAGRAM = 65536, SOCKET_BUFFER = 8 << 20 };

static double seconds;
static uint8_t key[32];
static ful_config config = {.size = sizeof config};
/* Of the receiving end. */
static uint64_t bytes, first_ns, last_ns;
static atomic_int is_over;

static void check(int32_t code, const char *what) {
    if (code >= 0) return;
    fprintf(stderr, "bulk: %s: %s\n", what, ful_error_text(code));
    exit(1);
}

static void need(int is_fine, const char *what) {
    if (is_fine) return;
    perror(what);
    exit(1);
}

/* Since the epoch, and never back. */
static uint64_t now_ns(void) {
    static uint64_t offset;
    struct timespec at, day;
    clock_gettime(CLOCK_MONOTONIC, &at);
    if (!offset) {
        clock_gettime(CLOCK_REALTIME, &day);
        offset = (uint64_t)(day.tv_sec - at.tv_sec) * 1000000000u;
    }
    return offset + (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static void count(size_t len) {
    last_ns = now_ns();
    if (!bytes) first_ns = last_ns;
    bytes += len;
}

/* The driver. */

static void next(const ful_endpoint *endpoint) {
    ful_event event = {.size = sizeof event};
    while (ful_event_next(endpoint, &event) == FUL_WOULDBLOCK) ful_wait(endpoint, -1);
}

static void *driver_receives(void *server) {
    static uint8_t data[PIECE];
    ful_conn *conn;
    ful_stream *stream;
    size_t len;
    int32_t code;
    while ((code = ful_accept(server, &conn)) == FUL_WOULDBLOCK) next(server);
    check(code, "accept");
    while ((code = ful_stream_accept(conn, FUL_ONE_WAY, &stream)) == FUL_WOULDBLOCK) next(server);
    check(code, "stream");
    while ((code = ful_stream_read(stream, data, sizeof data, &len)) != FUL_END) {
        check(code, "read");
        if (code == FUL_OK) count(len);
        else next(server);
    }
    ful_stream_free(stream);
    /* It is closed when the sender knows that all has come. */
    return conn;
}

static ful_endpoint *endpoint(uint32_t flags) {
    ful_endpoint *made;
    ful_error error = {.size = sizeof error};
    config.flags = flags;
    if (ful_endpoint_new(&config, &made, &error) < 0) check(error.code, error.text);
    return made;
}

static void driver(void) {
    static uint8_t data[PIECE];
    ful_endpoint *server = endpoint(FUL_SERVE), *client = endpoint(0);
    ful_conn *conn;
    ful_stream *stream;
    pthread_t receiver;
    void *received;
    char address[64];
    size_t len, at = 0;
    int32_t code;
    need(pthread_create(&receiver, NULL, driver_receives, server) == 0, "thread");
    check(ful_endpoint_address(server, address, sizeof address, NULL), "address");
    check(ful_connect(client, address, NULL, &conn), "connect");
    while ((code = ful_stream_open(conn, FUL_ONE_WAY, &stream)) == FUL_WOULDBLOCK) next(client);
    check(code, "open");
    for (uint64_t until = now_ns() + (uint64_t)(seconds * 1e9); now_ns() < until; at = (at + len) % PIECE) {
        while ((code = ful_stream_write(stream, data + at, PIECE - at, &len)) == FUL_WOULDBLOCK) next(client);
        check(code, "write");
    }
    check(ful_stream_finish(stream), "finish");
    while ((code = ful_stream_delivered(stream)) == FUL_WOULDBLOCK) next(client);
    check(code, "delivered");
    pthread_join(receiver, &received);
    ful_stream_free(stream);
    ful_conn_free(conn);
    ful_conn_free(received);
    ful_endpoint_free(client);
    ful_endpoint_free(server);
}

/* The protocol without I/O. */

typedef struct {
    ful_core *core;
    int socket;
    struct sockaddr_in peer;
    ful_address from;
    uint64_t conn, stream;
    int is_open;
    uint8_t *buffer;
} end;

/* Feeds what has come, but not so much that the peer would wait for its ACKs; whether there was something. */
static int feed(end *at) {
    int round;
    for (round = 0; round < FED_AT_ONCE; round++) {
        union {
            char bytes[CMSG_SPACE(sizeof(int)) * 2];
            struct cmsghdr align;
        } words;
        struct iovec into = {at->buffer, DATAGRAM};
        struct msghdr message = {.msg_iov = &into, .msg_iovlen = 1, .msg_control = &words, .msg_controllen = sizeof words};
        ssize_t len = recvmsg(at->socket, &message, MSG_DONTWAIT);
        int segment = 0;
        uint8_t ecn = 0;
        if (len < 0) break;
        for (struct cmsghdr *word = CMSG_FIRSTHDR(&message); word; word = CMSG_NXTHDR(&message, word)) {
            if (word->cmsg_level == SOL_UDP && word->cmsg_type == UDP_GRO) memcpy(&segment, CMSG_DATA(word), sizeof segment);
            if (word->cmsg_level == IPPROTO_IP && word->cmsg_type == IP_TOS) ecn = *CMSG_DATA(word) & 3;
        }
        check(ful_core_feed(at->core, now_ns(), &at->from, ecn, at->buffer, (size_t)len, (size_t)segment), "feed");
    }
    return round > 0;
}

static void put(struct msghdr *message, struct cmsghdr **word, int level, int type, const void *value, size_t len) {
    *word = *word ? CMSG_NXTHDR(message, *word) : CMSG_FIRSTHDR(message);
    (*word)->cmsg_level = level;
    (*word)->cmsg_type = type;
    (*word)->cmsg_len = CMSG_LEN(len);
    memcpy(CMSG_DATA(*word), value, len);
}

/* Sends what there is to be sent; whether there was something. A probe that is too large for the path is lost. */
static int harvest(end *at) {
    ful_transmit out[BATCH];
    size_t made = 0, some = 0;
    do {
        check(ful_core_harvest(at->core, now_ns(), at->buffer, 4 * DATAGRAM, out, BATCH, &made), "harvest");
        some += made;
        for (ful_transmit *one = out; one < out + made; one++) {
            union {
                char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(uint16_t))];
                struct cmsghdr align;
            } words;
            struct iovec from = {at->buffer + one->offset, one->bytes};
            struct msghdr message = {&at->peer, sizeof at->peer, &from, 1, &words, CMSG_SPACE(sizeof(int)), 0};
            struct cmsghdr *word = NULL;
            int ecn = one->ecn;
            uint16_t segment = (uint16_t)one->segment_bytes;
            memset(&words, 0, sizeof words);
            if (one->segment_bytes < one->bytes) message.msg_controllen = sizeof words;
            put(&message, &word, IPPROTO_IP, IP_TOS, &ecn, sizeof ecn);
            if (one->segment_bytes < one->bytes) put(&message, &word, SOL_UDP, UDP_SEGMENT, &segment, sizeof segment);
            sendmsg(at->socket, &message, 0);
        }
    } while (made);
    return some > 0;
}

/* One turn of an end's loop. It sleeps if nothing is to be done, for at most 10 ms: the other end may be over. */
static void turn(end *at) {
    int moved = feed(at);
    uint64_t due = UINT64_MAX, now = now_ns();
    if (ful_core_timeout(at->core, &due) == FUL_OK && due <= now) check(ful_core_expire(at->core, now), "expire");
    moved |= harvest(at);
    if (moved || (ful_core_timeout(at->core, &due) == FUL_OK && due <= now)) return;
    struct pollfd waits = {at->socket, POLLIN, 0};
    struct timespec limit = {0, due - now < 10000000 ? (long)(due - now) : 10000000};
    ppoll(&waits, 1, &limit, NULL);
}

static void *core_receives(void *server) {
    static uint8_t data[PIECE];
    end *at = server;
    ful_core_event event = {.size = sizeof event};
    size_t len;
    while (!is_over) {
        int32_t code;
        turn(at);
        while (ful_core_event_next(at->core, &event) == FUL_OK)
            if (event.kind == FUL_EVENT_ACCEPT) at->conn = event.conn;
        if (!at->conn) continue;
        if (!at->is_open) at->is_open = ful_core_stream_accept(at->core, at->conn, FUL_ONE_WAY, &at->stream) == FUL_OK;
        if (!at->is_open) continue;
        while ((code = ful_core_stream_read(at->core, now_ns(), at->conn, at->stream, data, sizeof data, &len)) == FUL_OK) count(len);
        check(code, "read");
        is_over = code == FUL_END;
    }
    return NULL;
}

static void open_end(end *at, uint32_t flags) {
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1, probe = IP_PMTUDISC_PROBE, large = SOCKET_BUFFER;
    ful_error error = {.size = sizeof error};
    config.flags = flags;
    if (ful_core_new(&config, NULL, &at->core, &error) < 0) check(error.code, error.text);
    at->buffer = malloc(4 * DATAGRAM);
    at->socket = socket(AF_INET, SOCK_DGRAM, 0);
    need(at->buffer && at->socket >= 0 && bind(at->socket, (void *)&any, sizeof any) == 0, "socket");
    need(setsockopt(at->socket, SOL_UDP, UDP_GRO, &on, sizeof on) == 0, "UDP_GRO");
    need(setsockopt(at->socket, IPPROTO_IP, IP_RECVTOS, &on, sizeof on) == 0, "IP_RECVTOS");
    need(setsockopt(at->socket, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof probe) == 0, "IP_MTU_DISCOVER");
    /* As the driver asks: beyond the system's limit where that is allowed. */
    if (setsockopt(at->socket, SOL_SOCKET, SO_RCVBUFFORCE, &large, sizeof large))
        setsockopt(at->socket, SOL_SOCKET, SO_RCVBUF, &large, sizeof large);
    if (setsockopt(at->socket, SOL_SOCKET, SO_SNDBUFFORCE, &large, sizeof large))
        setsockopt(at->socket, SOL_SOCKET, SO_SNDBUF, &large, sizeof large);
}

static void meet(end *at, const end *other) {
    socklen_t len = sizeof at->peer;
    need(getsockname(other->socket, (void *)&at->peer, &len) == 0, "address");
    at->from = (ful_address){.ip = {127, 0, 0, 1}, .family = 4, .port = ntohs(at->peer.sin_port)};
}

static void core(void) {
    static uint8_t data[PIECE];
    static end server, client;
    ful_core_event event = {.size = sizeof event};
    pthread_t receiver;
    uint64_t until = 0;
    size_t len, from = 0;
    int is_finished = 0;
    open_end(&server, FUL_SERVE);
    open_end(&client, 0);
    meet(&server, &client);
    meet(&client, &server);
    need(pthread_create(&receiver, NULL, core_receives, &server) == 0, "thread");
    check(ful_core_connect(client.core, now_ns(), &client.from, &client.conn), "connect");
    while (!is_over) {
        turn(&client);
        while (ful_core_event_next(client.core, &event) == FUL_OK) {
            if (event.kind == FUL_EVENT_CLOSED) check(event.error, "closed");
            if (event.kind != FUL_EVENT_CONNECTED) continue;
            check(ful_core_stream_open(client.core, client.conn, FUL_ONE_WAY, &client.stream), "open");
            until = now_ns() + (uint64_t)(seconds * 1e9);
        }
        if (!until || is_finished) continue;
        while (now_ns() < until && ful_core_stream_write(client.core, client.conn, client.stream, data + from, PIECE - from, &len) == FUL_OK)
            from = (from + len) % PIECE;
        if (now_ns() < until) continue;
        check(ful_core_stream_finish(client.core, client.conn, client.stream), "finish");
        is_finished = 1;
    }
    pthread_join(receiver, NULL);
    ful_core_free(client.core);
    ful_core_free(server.core);
    free(client.buffer);
    free(server.buffer);
}

int main(int argc, char **argv) {
    struct rusage used;
    ful_identity *identity;
    if (argc != 3 || (seconds = atof(argv[2])) <= 0 || (strcmp(argv[1], "driver") && strcmp(argv[1], "core"))) {
        fprintf(stderr, "bulk driver|core SECONDS\n");
        return 2;
    }
    check(ful_identity_generate(&identity), "key");
    check(ful_identity_public_key(identity, key), "key");
    config.identity = identity;
    config.trusted_keys = key;
    config.trusted_count = 1;
    config.bind = "127.0.0.1:0";
    now_ns();
    if (strcmp(argv[1], "core")) driver();
    else core();
    getrusage(RUSAGE_SELF, &used);
    double gbit = (double)bytes * 8e-9, cpu = 0;
    cpu += (double)used.ru_utime.tv_sec + (double)used.ru_utime.tv_usec * 1e-6;
    cpu += (double)used.ru_stime.tv_sec + (double)used.ru_stime.tv_usec * 1e-6;
    printf("{\"goodput_gbps\":%.4f,\"cpu_seconds_per_gbit\":%.4f}\n", gbit / ((double)(last_ns - first_ns) * 1e-9), cpu / gbit);
    ful_identity_free(identity);
    return 0;
}
