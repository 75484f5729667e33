/* Fulmar for C. Made by cbindgen from crates/fulmar-c; `make c-header` makes it anew. docs/languages.md shows its use.
 *
 * THE CONTRACT
 *
 * Returns      FUL_OK (0), FUL_WOULDBLOCK or FUL_END (above 0), or an error (below 0): ful_error_text. What cannot be
 *              made says more in a ful_error, which may be NULL.
 * Pointers     NULL where it is allowed is said; elsewhere it gives FUL_ERR_ARGUMENT. Anything else must lead to what
 *              the function asks for, for as long as the call lasts: nothing of the caller's is kept.
 * Handles      are made by a function with `out` and freed by the ful_..._free of their kind, once, as the last thing
 *              that is done to them. All other functions may be called from any thread at any time.
 * Structs      begin with their size, which the caller sets: `= { .size = sizeof(ful_config) }`. Programs and libraries
 *              of different versions get along: a field that one of them does not know is left, or zero.
 * Texts        are UTF-8 and end with a zero.
 * Buffers      of the caller are filled; `len` says how much, the zero that ends a text left out. FUL_ERR_TOO_SMALL: it
 *              says how much is needed, and nothing was lost.
 * Events       are hints, and come once after a function has said FUL_WOULDBLOCK; a new handle begins with one for what
 *              may be there already. So on an event call the function that it names until that says FUL_WOULDBLOCK.
 *              Events of a handle end before its free returns. No function of yours is called back.
 * Threads      An endpoint of the driver has one, from ful_endpoint_new to ful_endpoint_free. It is not there in a child
 *              after fork(): make endpoints after that.
 */


#ifndef FULMAR_H
#define FULMAR_H

#include <stddef.h>
#include <stdint.h>

/*
 It worked.
 */
#define FUL_OK 0

/*
 Not now: an event says when to try again.
 */
#define FUL_WOULDBLOCK 1

/*
 The end: of a stream, or of what was asked for.
 */
#define FUL_END 2

/*
 An argument is NULL, out of range, or of a wrong kind.
 */
#define FUL_ERR_ARGUMENT -1

/*
 A setting is not taken.
 */
#define FUL_ERR_CONFIG -2

/*
 The system refused something: a port that is taken, a name without an address.
 */
#define FUL_ERR_IO -3

/*
 A key or a file with keys cannot be read or written.
 */
#define FUL_ERR_KEYS -4

/*
 The buffer is too small; the length says what it takes. Nothing was lost.
 */
#define FUL_ERR_TOO_SMALL -5

/*
 The stream, or this half of it, was finished, reset, stopped or read to its end before.
 */
#define FUL_ERR_STREAM -6

/*
 The peer reset the stream; see the code.
 */
#define FUL_ERR_RESET -7

/*
 The peer wants no more of the stream; see the code.
 */
#define FUL_ERR_STOPPED -8

/*
 The datagram is longer than fits a packet now.
 */
#define FUL_ERR_TOO_LARGE -9

/*
 The peer takes no datagrams.
 */
#define FUL_ERR_UNSUPPORTED -10

/*
 The connection was closed, by this end or by the peer's application.
 */
#define FUL_ERR_CLOSED -11

/*
 The peer was silent for too long.
 */
#define FUL_ERR_TIMED_OUT -12

/*
 The connection failed: see its error's text.
 */
#define FUL_ERR_FAILED -13

/*
 The server's key is not known, or is another than before.
 */
#define FUL_ERR_UNTRUSTED -14

/*
 A mistake in this library; what was asked for may be half done.
 */
#define FUL_ERR_PANIC -15

/*
 The version of this library's ABI: functions and fields are only added as long as it stays the same.
 */
#define FUL_ABI 1

/*
 Takes connections, beside opening some.
 */
#define FUL_SERVE 1

/*
 A server lets in whoever knocks, also without a key.
 */
#define FUL_LET_ANYBODY_IN 2

/*
 A client with `home` believes a server that it has never met, and writes its key down.
 */
#define FUL_TRUST_NEW 4

/*
 A stream on which both ends send.
 */
#define FUL_BOTH_WAYS 0

/*
 A stream on which only the end that opened it sends.
 */
#define FUL_ONE_WAY 1

/*
 Is sent once, and may get lost.
 */
#define FUL_DATAGRAM_ONCE 0

/*
 Is repaired ahead of loss, and may overtake others.
 */
#define FUL_DATAGRAM_REPAIRED 1

/*
 Is repaired ahead of loss, and waits for those before it, as long as these may still come.
 */
#define FUL_DATAGRAM_REPAIRED_IN_ORDER 2

/*
 A client has knocked: ful_accept.
 */
#define FUL_EVENT_ACCEPT 1

/*
 A connection that ful_connect began is there.
 */
#define FUL_EVENT_CONNECTED 2

/*
 A connection has ended, or did not come about: ful_conn_error says why. What has arrived can still be
 read.
 */
#define FUL_EVENT_CLOSED 3

/*
 The peer has opened a stream: ful_stream_accept.
 */
#define FUL_EVENT_STREAM_OPENED 4

/*
 The peer allows more streams: ful_stream_open.
 */
#define FUL_EVENT_STREAMS_AVAILABLE 5

/*
 There is a datagram: ful_datagram_receive.
 */
#define FUL_EVENT_DATAGRAM 6

/*
 There is room for datagrams: ful_datagram_send.
 */
#define FUL_EVENT_DATAGRAM_ROOM 7

/*
 There is something to read, or the stream has ended: ful_stream_read.
 */
#define FUL_EVENT_READABLE 8

/*
 There is room to write, or the peer wants no more: ful_stream_write.
 */
#define FUL_EVENT_WRITABLE 9

/*
 It is known how a stream has ended at the peer: ful_stream_delivered.
 */
#define FUL_EVENT_DELIVERED 10

/*
 Only without I/O: everything written so far on a connection has reached the peer.
 */
#define FUL_EVENT_ALL_DELIVERED 11

/*
 Only without I/O: nothing is answered any more; another port may help.
 */
#define FUL_EVENT_PATH_SILENT 12

/*
 The host is known by this key.
 */
#define FUL_TRUSTED 1

/*
 Nothing is known about the host.
 */
#define FUL_UNKNOWN 2

/*
 The host is known by another key.
 */
#define FUL_CHANGED 3

/*
 A connection to one peer.
 */
typedef struct ful_conn ful_conn;

/*
 The protocol of one socket, which is the caller's, as the clock is: all times are nanoseconds since the
 Unix epoch, and never go back. After anything that is done to it: ful_core_harvest, until it gives
 nothing, and ful_core_timeout.
 */
typedef struct ful_core ful_core;

/*
 A UDP socket with any number of connections, and the thread that drives them.
 */
typedef struct ful_endpoint ful_endpoint;

/*
 A private key.
 */
typedef struct ful_identity ful_identity;

/*
 One end of a stream.
 */
typedef struct ful_stream ful_stream;

/*
 Why something could not be made. Set `size`; the rest is filled in when the function fails.
 */
typedef struct {
    /*
     sizeof(ful_error).
     */
    size_t size;
    /*
     What the function returned.
     */
    int32_t code;
    /*
     Why, in English, with names and values; cut where it is longer than this.
     */
    char text[512];
} ful_error;

/*
 Counts from a connection's beginning, and current values. Rates are zero where they are not known.
 */
typedef struct {
    /*
     sizeof(ful_stats), to be set by the caller.
     */
    size_t size;
    /*
     Smoothed round-trip time, ns.
     */
    uint64_t rtt_ns;
    /*
     Smallest round-trip time, ns.
     */
    uint64_t rtt_min_ns;
    /*
     Congestion window, bytes.
     */
    uint64_t window_bytes;
    /*
     Sent and neither acknowledged nor declared lost, bytes.
     */
    uint64_t in_flight_bytes;
    /*
     Pace of sending, bytes per second.
     */
    uint64_t pacing_bytes_per_s;
    /*
     Estimate of the bottleneck's rate, bytes per second.
     */
    uint64_t bandwidth_bytes_per_s;
    /*
     Estimated loss on the wire, before repair, 0 to 1.
     */
    double loss;
    /*
     Share of symbols whose first packet was lost, 0 to 1.
     */
    double loss_before_repair;
    /*
     Share of symbols for which repair had to be asked for, 0 to 1.
     */
    double loss_after_repair;
    /*
     Symbols sent per source symbol, less one.
     */
    double overhead;
    /*
     UDP datagrams sent.
     */
    uint64_t sent_packets;
    /*
     UDP payload sent, bytes.
     */
    uint64_t sent_bytes;
    /*
     UDP datagrams received.
     */
    uint64_t received_packets;
    /*
     UDP payload received, bytes.
     */
    uint64_t received_bytes;
    /*
     Packets declared lost.
     */
    uint64_t lost_packets;
    /*
     Packets declared lost that arrived after all.
     */
    uint64_t spurious_packets;
    /*
     Probe timeouts.
     */
    uint64_t probe_timeouts;
    /*
     Times the peer's address changed.
     */
    uint64_t path_changes;
    /*
     Unreliable datagrams sent.
     */
    uint64_t datagrams_sent;
    /*
     Unreliable datagrams received.
     */
    uint64_t datagrams_received;
    /*
     Unreliable datagrams dropped because nobody took them.
     */
    uint64_t datagrams_dropped;
    /*
     Largest UDP payload that the path is known to carry, bytes.
     */
    uint32_t mtu_bytes;
} ful_stats;

/*
 How a datagram travels. Zero stands for the default, so begin with
 `= { .size = sizeof(ful_datagram_options) }`.
 */
typedef struct {
    /*
     sizeof(ful_datagram_options).
     */
    size_t size;
    /*
     FUL_DATAGRAM_ONCE (default), FUL_DATAGRAM_REPAIRED or FUL_DATAGRAM_REPAIRED_IN_ORDER.
     */
    uint32_t kind;
    /*
     It is worth nothing so many ms after it could have come, and is dropped then. Default: it always is
     worth something.
     */
    uint32_t deadline_ms;
} ful_datagram_options;

/*
 Settings. Zero or NULL stands for the default everywhere, so begin with `= { .size = sizeof(ful_config) }`.

 Who is trusted: either `home`, or `identity` with `trusted_keys`.
 */
typedef struct {
    /*
     sizeof(ful_config).
     */
    size_t size;
    /*
     FUL_SERVE, FUL_LET_ANYBODY_IN, FUL_TRUST_NEW, added up.
     */
    uint32_t flags;
    /*
     The driver's address, "127.0.0.1:4747" or "[::]:0"; NULL: any port of any address.
     */
    const char *bind;
    /*
     A folder with identity, known_hosts and authorized_keys; "": the user's own. Driver only.
     */
    const char *home;
    /*
     This end's key. It is copied.
     */
    const ful_identity *identity;
    /*
     The keys of peers that are trusted, 32 bytes each. They are copied.
     */
    const uint8_t *trusted_keys;
    /*
     How many keys.
     */
    size_t trusted_count;
    /*
     The application protocol (ALPN), which both ends must name alike; NULL: "fulmar/1".
     */
    const char *alpn;
    /*
     A line such as "auto" or "auto:cc=bbr" (docs/profiles); NULL: "auto".
     */
    const char *profile;
    /*
     Silence after which a connection is given up, ms. Default: 30,000.
     */
    uint64_t idle_timeout_ms;
    /*
     Silence after which something is sent to keep the connection, ms. Default: never.
     */
    uint64_t keep_alive_ms;
    /*
     How long a handshake may take, ms. Default: 60,000 for a client, 10,000 for a server.
     */
    uint64_t handshake_timeout_ms;
    /*
     Bytes written and not sent yet, at most, of a connection. Default: 4 MiB.
     */
    uint64_t send_buffer_bytes;
    /*
     Bytes the peer may send that were not read, at most, of a connection. Default: 64 MiB.
     */
    uint64_t receive_window_bytes;
    /*
     What all connections of a driver may hold together, bytes. Default: half of the machine's memory.
     */
    uint64_t memory_bytes;
    /*
     Datagrams of a million that the driver throws away where they were received, to try a bad network.
     */
    uint32_t lose_received_ppm;
} ful_config;

/*
 Something that happened.
 */
typedef struct {
    /*
     sizeof(ful_event), to be set by the caller.
     */
    size_t size;
    /*
     FUL_EVENT_...
     */
    int32_t kind;
    /*
     The connection's handle (ful_conn *); NULL for events of streams and endpoints.
     */
    void *conn;
    /*
     The stream's handle (ful_stream *); NULL for other events.
     */
    void *stream;
    /*
     What ful_conn_set_user or ful_stream_set_user has set for that handle.
     */
    void *user;
} ful_event;

/*
 An IP address with a port, apart from any system's struct sockaddr.
 */
typedef struct {
    /*
     The bytes in the order of the network: the first 4 of IPv4, all of IPv6.
     */
    uint8_t ip[16];
    /*
     4 or 6.
     */
    uint8_t family;
    /*
     The port, in the order of this machine.
     */
    uint16_t port;
} ful_address;

/*
 Datagrams of one size to one address: what one sendmsg with UDP_SEGMENT sends.
 */
typedef struct {
    /*
     Where they begin in the buffer.
     */
    size_t offset;
    /*
     How many bytes they have together.
     */
    size_t bytes;
    /*
     The size of each, the last perhaps shorter; `bytes` if there is one.
     */
    size_t segment_bytes;
    /*
     To whom.
     */
    ful_address to;
    /*
     The ECN codepoint to send them with: 0, or 2 (ECT(0)), ..
     */
    uint8_t ecn;
} ful_transmit;

/*
 Something that happened, without I/O: connections and streams are numbers.
 */
typedef struct {
    /*
     sizeof(ful_core_event), to be set by the caller.
     */
    size_t size;
    /*
     FUL_EVENT_...
     */
    int32_t kind;
    /*
     Of FUL_EVENT_CLOSED: why, as FUL_ERR_...
     */
    int32_t error;
    /*
     The connection.
     */
    uint64_t conn;
    /*
     The stream, of FUL_EVENT_READABLE and FUL_EVENT_WRITABLE.
     */
    uint64_t stream;
} ful_core_event;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 What `code` means, in English. Never NULL; not to be freed.
 */
const char *ful_error_text(int32_t code);

/*
 The ABI that the library at hand was built with: to be compared with FUL_ABI.
 */
uint32_t ful_abi(void);

/*
 Frees the handle. A connection nobody closed ends in order behind the back: streams that were finished are
 delivered, for at most 30 seconds and as long as the endpoint is there. NULL is fine.
 */
void ful_conn_free(ful_conn *conn);

/*
 What this connection's events are to have in `user`.
 */
int32_t ful_conn_set_user(const ful_conn *conn, void *user);

/*
 What was set. NULL at first.
 */
void *ful_conn_user(const ful_conn *conn);

/*
 Whether the connection is alive: `error->code` is FUL_OK then, otherwise why it has ended, in words too.
 `code` (may be NULL) is what the peer's application closed with.
 */
int32_t ful_conn_error(const ful_conn *conn, ful_error *error, uint64_t *code);

/*
 The peer's address, "192.0.2.1:4747". It changes when the peer moves.
 */
int32_t ful_conn_remote(const ful_conn *conn, char *out, size_t capacity, size_t *len);

/*
 The key that the peer has proved to hold: 32 bytes. FUL_END: it has shown none.
 */
int32_t ful_conn_peer_key(const ful_conn *conn, uint8_t *key);

/*
 Counts and current values, into `stats`, whose `size` is set.
 */
int32_t ful_conn_stats(const ful_conn *conn, ful_stats *stats);

/*
 Closes at once; what was not delivered may be lost. The peer's application gets `code` and the `len` bytes
 of `reason`.
 */
int32_t ful_conn_close(const ful_conn *conn, uint64_t code, const uint8_t *reason, size_t len);

/*
 Closes in order: takes no more, delivers everything written so far, then closes; FUL_EVENT_CLOSED comes
 then. A peer that does not read is waited for: ful_conn_close ends that.
 */
int32_t ful_conn_shutdown(const ful_conn *conn, uint64_t code, const uint8_t *reason, size_t len);

/*
 Sends an unreliable datagram: it may get lost or overtake others, and is never sent again. FUL_WOULDBLOCK:
 the queue is full, and FUL_EVENT_DATAGRAM_ROOM follows. FUL_ERR_TOO_LARGE: see ful_datagram_bytes_max.
 */
int32_t ful_datagram_send(const ful_conn *conn, const uint8_t *data, size_t len);

/*
 As ful_datagram_send, for a datagram of which more is asked. One that fits no packet travels in pieces, up
 to 65,535 bytes. To a peer that does not know repair it is sent once, as it is.
 */
int32_t ful_datagram_send_with(const ful_conn *conn,
                               const uint8_t *data,
                               size_t len,
                               const ful_datagram_options *options);

/*
 Takes the next datagram that arrived. FUL_WOULDBLOCK: there is none, and FUL_EVENT_DATAGRAM follows.
 FUL_ERR_TOO_SMALL: it is `*len` bytes long, and waits for a larger buffer. Those nobody takes are dropped,
 the oldest first.
 */
int32_t ful_datagram_receive(const ful_conn *conn, uint8_t *out, size_t capacity, size_t *len);

/*
 Most bytes that a datagram may have now. FUL_ERR_UNSUPPORTED: the peer takes none.
 */
int32_t ful_datagram_bytes_max(const ful_conn *conn, size_t *bytes);

/*
 Opens a socket and starts the thread that drives it.
 */
int32_t ful_endpoint_new(const ful_config *config, ful_endpoint **out, ful_error *error);

/*
 Closes all connections at once, ends the thread and frees the endpoint; within a second. Handles of
 connections and streams stay valid, and are to be freed as well; no events come any more. NULL is fine.
 */
void ful_endpoint_free(ful_endpoint *endpoint);

/*
 The address of the socket, "127.0.0.1:4747".
 */
int32_t ful_endpoint_address(const ful_endpoint *endpoint, char *out, size_t capacity, size_t *len);

/*
 The descriptor that is readable as long as there are events: for poll, select, epoll. It is the
 endpoint's: it is not to be read, written or closed. Below zero on systems that have none: ful_wait works
 everywhere.
 */
int32_t ful_endpoint_descriptor(const ful_endpoint *endpoint);

/*
 The next event, into `event`, whose `size` is set. FUL_WOULDBLOCK: there is none, and the descriptor is
 not readable.
 */
int32_t ful_event_next(const ful_endpoint *endpoint, ful_event *event);

/*
 Waits until there is an event, for at most `limit_ms` (below zero: without end). FUL_WOULDBLOCK: there is
 none.
 */
int32_t ful_wait(const ful_endpoint *endpoint, int32_t limit_ms);

/*
 Begins a connection to `host` ("name:port"). It can be used after FUL_EVENT_CONNECTED; until then its
 functions say FUL_WOULDBLOCK. Where it does not come about, FUL_EVENT_CLOSED comes instead. Its `user` is
 set here, so that the events have it from the first.
 */
int32_t ful_connect(const ful_endpoint *endpoint, const char *host, void *user, ful_conn **out);

/*
 The next client that was let in. FUL_WOULDBLOCK: FUL_EVENT_ACCEPT follows.
 */
int32_t ful_accept(const ful_endpoint *endpoint, ful_conn **out);

/*
 Waits until no connection is left, for at most `limit_ms` (below zero: without end): all have ended, and
 their peers had the time to hear of it. FUL_WOULDBLOCK: some are left. To be called before the program
 ends.
 */
int32_t ful_endpoint_wait_idle(const ful_endpoint *endpoint, int32_t limit_ms);

/*
 A new key, from the system's randomness.
 */
int32_t ful_identity_generate(ful_identity **out);

/*
 Reads a private key: the PEM of an Ed25519 key in PKCS#8.
 */
int32_t ful_identity_from_pem(const char *pem, ful_identity **out, ful_error *error);

/*
 The private key in PEM. To be kept where only its owner reads.
 */
int32_t ful_identity_to_pem(const ful_identity *identity, char *out, size_t capacity, size_t *len);

/*
 The public half: 32 bytes.
 */
int32_t ful_identity_public_key(const ful_identity *identity, uint8_t *key);

/*
 Lets go of a private key.
 */
void ful_identity_free(ful_identity *identity);

/*
 Reads a line `fulmar-ed25519 BASE64 comment` into the 32 bytes of its key.
 */
int32_t ful_key_from_line(const char *line, uint8_t *key);

/*
 The line of a key (32 bytes), with a comment that may be NULL; no end of line.
 */
int32_t ful_key_to_line(const uint8_t *key, const char *comment, char *out, size_t capacity, size_t *len);

/*
 `SHA256:...` of a key (32 bytes): what people compare.
 */
int32_t ful_key_fingerprint(const uint8_t *key, char *out, size_t capacity, size_t *len);

/*
 The protocol of one socket. `seed` (32 bytes) makes a simulation repeatable and must be secret anywhere
 else; NULL: drawn by the system.
 */
int32_t ful_core_new(const ful_config *config, const uint8_t *seed, ful_core **out, ful_error *error);

/*
 Frees it with all of its connections, without a word to their peers. NULL is fine.
 */
void ful_core_free(ful_core *core);

/*
 Begins a connection; its number is never used again.
 */
int32_t ful_core_connect(const ful_core *core, uint64_t now_ns, const ful_address *remote, uint64_t *conn);

/*
 Takes what came from `from`: `len` bytes, which are decrypted in place; with `segment_bytes` other than 0
 (as UDP_GRO tells) datagrams of that size, the last perhaps shorter. `ecn`: the two bits they came with.
 */
int32_t ful_core_feed(const ful_core *core,
                      uint64_t now_ns,
                      const ful_address *from,
                      uint8_t ecn_bits,
                      uint8_t *data,
                      size_t len,
                      size_t segment_bytes);

/*
 Fills `buffer` (at least 65,536 bytes; several times that is faster) with what is to be sent now, and
 `out` with up to `max` entries that say where it lies; `*count` is how many. To be called until that is 0.
 */
int32_t ful_core_harvest(const ful_core *core,
                         uint64_t now_ns,
                         uint8_t *buffer,
                         size_t capacity,
                         ful_transmit *out,
                         size_t max,
                         size_t *count);

/*
 When ful_core_expire is to be called. FUL_END: never, as things are.
 */
int32_t ful_core_timeout(const ful_core *core, uint64_t *at_ns);

/*
 Time has passed.
 */
int32_t ful_core_expire(const ful_core *core, uint64_t now_ns);

/*
 The next event, into `event`, whose `size` is set. FUL_WOULDBLOCK: there is none. FUL_EVENT_ACCEPT has the
 number of a new connection, whose FUL_EVENT_CONNECTED follows when its client has been let in.
 */
int32_t ful_core_event_next(const ful_core *core, ful_core_event *event);

/*
 Opens a stream, FUL_BOTH_WAYS or FUL_ONE_WAY. FUL_WOULDBLOCK: FUL_EVENT_STREAMS_AVAILABLE follows.
 */
int32_t ful_core_stream_open(const ful_core *core, uint64_t conn, int32_t ways, uint64_t *stream);

/*
 The next stream that the peer has opened. FUL_WOULDBLOCK: FUL_EVENT_STREAM_OPENED follows.
 */
int32_t ful_core_stream_accept(const ful_core *core, uint64_t conn, int32_t ways, uint64_t *stream);

/*
 As ful_stream_write.
 */
int32_t ful_core_stream_write(const ful_core *core,
                              uint64_t conn,
                              uint64_t stream,
                              const uint8_t *data,
                              size_t len,
                              size_t *written);

/*
 As ful_stream_read.
 */
int32_t ful_core_stream_read(const ful_core *core,
                             uint64_t now_ns,
                             uint64_t conn,
                             uint64_t stream,
                             uint8_t *out,
                             size_t capacity,
                             size_t *len);

/*
 As ful_stream_finish.
 */
int32_t ful_core_stream_finish(const ful_core *core, uint64_t conn, uint64_t stream);

/*
 As ful_stream_reset.
 */
int32_t ful_core_stream_reset(const ful_core *core, uint64_t conn, uint64_t stream, uint64_t code);

/*
 As ful_stream_stop.
 */
int32_t ful_core_stream_stop(const ful_core *core, uint64_t conn, uint64_t stream, uint64_t code);

/*
 As ful_datagram_send.
 */
int32_t ful_core_datagram_send(const ful_core *core, uint64_t conn, const uint8_t *data, size_t len);

/*
 As ful_datagram_receive, but a datagram that is longer than `capacity` is lost, as other datagrams are:
 none is longer than 65,527 bytes.
 */
int32_t ful_core_datagram_receive(const ful_core *core,
                                  uint64_t conn,
                                  uint8_t *out,
                                  size_t capacity,
                                  size_t *len);

/*
 As ful_conn_stats.
 */
int32_t ful_core_stats(const ful_core *core, uint64_t conn, ful_stats *stats);

/*
 As ful_conn_peer_key.
 */
int32_t ful_core_peer_key(const ful_core *core, uint64_t conn, uint8_t *key);

/*
 As ful_conn_close.
 */
int32_t ful_core_close(const ful_core *core, uint64_t now_ns, uint64_t conn, uint64_t code);

/*
 As ful_conn_shutdown.
 */
int32_t ful_core_shutdown(const ful_core *core, uint64_t now_ns, uint64_t conn, uint64_t code);

/*
 Forgets a connection that is over, with what was not read of it. FUL_WOULDBLOCK: its peer may still ask:
 after the next ful_core_timeout.
 */
int32_t ful_core_forget(const ful_core *core, uint64_t conn);

/*
 Opens a stream, FUL_BOTH_WAYS or FUL_ONE_WAY. FUL_WOULDBLOCK: the peer allows no more now, and
 FUL_EVENT_STREAMS_AVAILABLE follows. The peer learns of it with the first bytes, or its end.
 */
int32_t ful_stream_open(const ful_conn *conn, int32_t ways, ful_stream **out);

/*
 The next stream that the peer has opened, FUL_BOTH_WAYS or FUL_ONE_WAY. FUL_WOULDBLOCK:
 FUL_EVENT_STREAM_OPENED follows.
 */
int32_t ful_stream_accept(const ful_conn *conn, int32_t ways, ful_stream **out);

/*
 Writes some of the `len` bytes at `data`; `*written` says how many were taken. FUL_WOULDBLOCK: none now,
 and FUL_EVENT_WRITABLE follows. Pieces of 64 KiB or more are fastest.
 */
int32_t ful_stream_write(const ful_stream *stream, const uint8_t *data, size_t len, size_t *written);

/*
 Reads what is there into `out`, up to `capacity` bytes; `*len` says how many. FUL_WOULDBLOCK: nothing now,
 and FUL_EVENT_READABLE follows. FUL_END: the peer has finished the stream.
 */
int32_t ful_stream_read(const ful_stream *stream, uint8_t *out, size_t capacity, size_t *len);

/*
 Ends the sending half after what was written; does not wait.
 */
int32_t ful_stream_finish(const ful_stream *stream);

/*
 Gives the sending half up: what was not sent is dropped, and the peer's reads fail with `code`.
 */
int32_t ful_stream_reset(const ful_stream *stream, uint64_t code);

/*
 Wants no more of the receiving half: the peer's writes fail with `code`.
 */
int32_t ful_stream_stop(const ful_stream *stream, uint64_t code);

/*
 Streams of higher priority are sent first; those of one priority take turns. At first it is 0.
 */
int32_t ful_stream_set_priority(const ful_stream *stream, int32_t priority);

/*
 Whether the peer has all of a stream that was finished, or knows that it was reset. FUL_WOULDBLOCK: not
 yet, and FUL_EVENT_DELIVERED follows. FUL_ERR_STOPPED: the peer wants no more of it.
 */
int32_t ful_stream_delivered(const ful_stream *stream);

/*
 The code that came with the last FUL_ERR_RESET or FUL_ERR_STOPPED of this stream; 0 before.
 */
uint64_t ful_stream_code(const ful_stream *stream);

/*
 The stream's number within its connection (RFC 9000 2.1).
 */
uint64_t ful_stream_id(const ful_stream *stream);

/*
 What this stream's events are to have in `user`.
 */
int32_t ful_stream_set_user(const ful_stream *stream, void *user);

/*
 What was set. NULL at first.
 */
void *ful_stream_user(const ful_stream *stream);

/*
 Frees the handle. A sending half that was not finished is reset with code 0, so that the peer takes no
 part for the whole; a receiving half that was not read to its end is stopped with code 0. NULL is fine.
 */
void ful_stream_free(ful_stream *stream);

/*
 The identity in a folder of keys (NULL: the user's own). With `create` other than 0 it is made if there is
 none.
 */
int32_t ful_home_identity(const char *home_path, int32_t create, ful_identity **out, ful_error *error);

/*
 Lets in whoever holds `key` (32 bytes): a line of `authorized_keys`. The comment may be NULL.
 */
int32_t ful_home_authorize(const char *home_path, const uint8_t *key, const char *comment, ful_error *error);

/*
 Believes that the server `host` ("name:port") holds `key` (32 bytes): a line of `known_hosts`.
 */
int32_t ful_home_trust(const char *home_path, const char *host, const uint8_t *key, ful_error *error);

/*
 Forgets all keys of `host` ("name:port"); `removed` (may be NULL) says how many lines went.
 */
int32_t ful_home_forget(const char *home_path, const char *host, size_t *removed, ful_error *error);

/*
 What is known about `host` ("name:port") if it holds `key` (32 bytes): FUL_TRUSTED, FUL_UNKNOWN or
 FUL_CHANGED.
 */
int32_t ful_home_verdict(const char *home_path,
                         const char *host,
                         const uint8_t *key,
                         int32_t *verdict,
                         ful_error *error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FULMAR_H */
