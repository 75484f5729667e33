/* NORM (RFC 5740) by libnorm: one stream to one receiver, as much as goes for so many seconds.
 *
 *   norm server SECONDS                  prints, again and again, bytes so far and the goodput within SECONDS of the first
 *   norm client HOST SECONDS HOW [MBPS]  HOW: default, unicast, fixed
 *
 * default  NORM's congestion control (TFMCC, RFC 4654) and everything else as the library has it
 * unicast  the same for a group of one: receivers need not wait for each other before they ask for repair
 * fixed    unicast, without congestion control, at MBPS
 *
 * Segments of 1400 bytes; blocks of 64 segments, up to 32 repair segments, all of them sent on request (the values of the
 * program that comes with the library). Buffers of 512 MB, so that they are never what limits a run: a repair takes several
 * round trips, and what the sender has given up by then breaks the stream (of 64 MB, half a second at a gigabit, 0.1 Mb/s was left). */
#include <normApi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/select.h>
#include <ctime>

enum { PORT = 6003, SEGMENT = 1400, DATA = 64, PARITY = 32, BUFFER = 512 << 20, SENDER_ID = 1, RECEIVER_ID = 2 };
static const double DRAIN_SECONDS = 0.3, TELL_SECONDS = 0.1;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fail(const char *what) {
    fprintf(stderr, "norm: %s\n", what);
    exit(1);
}

/* The next event, if there is one before `end`. */
static bool next_event(NormInstanceHandle instance, NormEvent *event, double end) {
    int descriptor = NormGetDescriptor(instance);
    double left = end - now();
    if (left <= 0) return false;
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(descriptor, &readable);
    struct timeval wait = {(time_t)left, (suseconds_t)((left - (double)(time_t)left) * 1e6)};
    if (select(descriptor + 1, &readable, NULL, NULL, &wait) <= 0) return false;
    return NormGetNextEvent(instance, event, false);
}

static void tell(unsigned long long bytes, double mbps, unsigned long long breaks) {
    printf("{\"bytes\": %llu, \"goodput_mbps\": %f, \"breaks\": %llu}\n", bytes, mbps, breaks);
    fflush(stdout);
}

static NormSessionHandle session_to(NormInstanceHandle instance, const char *host, NormNodeId id) {
    NormSessionHandle session = NormCreateSession(instance, host, PORT, id);
    if (session == NORM_SESSION_INVALID) fail("no session");
    return session;
}

[[noreturn]] static void receive(double seconds) {
    NormInstanceHandle instance = NormCreateInstance(false);
    NormSessionHandle session = session_to(instance, "127.0.0.1", RECEIVER_ID);
    NormSetDefaultUnicastNack(session, true);
    NormSetDefaultSyncPolicy(session, NORM_SYNC_ALL);
    if (!NormStartReceiver(session, BUFFER)) fail("no receiver");
    NormSetRxSocketBuffer(session, 8 << 20);
    static char buffer[1 << 20];
    double first = 0, end = 0, tell_at = now();
    unsigned long long bytes = 0, counted = 0, breaks = 0;
    for (;;) {
        if (now() >= tell_at) {
            tell_at += TELL_SECONDS;
            double span = now() - first < seconds ? now() - first : seconds;
            if (bytes > 0) tell(bytes, (double)counted * 8e-6 / span, breaks);
        }
        NormEvent event;
        if (!next_event(instance, &event, tell_at)) continue;
        /* Data may have to wait for a segment before them; the clock does not. */
        if ((event.type == NORM_REMOTE_SENDER_NEW || event.type == NORM_RX_OBJECT_NEW) && first == 0) {
            first = now();
            end = first + seconds;
        }
        if (event.type != NORM_RX_OBJECT_UPDATED) continue;
        for (unsigned int length = 1; length > 0;) {
            length = sizeof buffer;
            /* False: data were given up by the sender, and the stream goes on behind them. */
            if (!NormStreamRead(event.object, buffer, &length)) {
                breaks++;
                continue;
            }
            bytes += length;
            if (now() <= end) counted += length;
        }
    }
}

static int send_to(const char *host, double seconds, const char *how, double mbps) {
    NormInstanceHandle instance = NormCreateInstance(false);
    NormSessionHandle session = session_to(instance, host, SENDER_ID);
    if (strcmp(how, "fixed") == 0) {
        NormSetTxRate(session, mbps * 1e6);
    } else {
        NormSetCongestionControl(session, true, true);
    }
    if (strcmp(how, "default") != 0) {
        NormSetBackoffFactor(session, 0.0);
        NormSetGroupSize(session, 10);
    }
    if (!NormStartSender(session, NormGetRandomSessionId(), BUFFER, SEGMENT, DATA, PARITY, 0)) fail("no sender");
    NormSetTxSocketBuffer(session, 8 << 20);
    NormObjectHandle stream = NormStreamOpen(session, BUFFER, NULL, 0);
    if (stream == NORM_OBJECT_INVALID) fail("no stream");
    static char filler[1 << 16];
    memset(filler, 0x5a, sizeof filler);
    double end = now() + seconds;
    while (now() < end) {
        if (NormStreamWrite(stream, filler, sizeof filler) == sizeof filler) continue;
        NormEvent event;
        while (next_event(instance, &event, end) && event.type != NORM_TX_QUEUE_VACANCY) {}
    }
    /* What was sent may still arrive; what was not stays here. */
    struct timespec drain = {0, (long)(DRAIN_SECONDS * 1e9)};
    nanosleep(&drain, NULL);
    return 0;
}

int main(int count, char **words) {
    if (count == 3 && strcmp(words[1], "server") == 0) receive(atof(words[2]));
    if (count >= 5 && strcmp(words[1], "client") == 0) {
        return send_to(words[2], atof(words[3]), words[4], count > 5 ? atof(words[5]) : 0);
    }
    fprintf(stderr, "norm server SECONDS | norm client HOST SECONDS default|unicast|fixed [MBPS]\n");
    return 2;
}
