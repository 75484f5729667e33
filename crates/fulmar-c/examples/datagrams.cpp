// Datagrams from C++: both ends in one process, handles that free themselves, and poll(2) on the endpoints' descriptors.
#include <fulmar.h>
#include <poll.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

template <auto Free> struct Freeing {
    template <class T> void operator()(T *handle) const { Free(handle); }
};
using Identity = std::unique_ptr<ful_identity, Freeing<ful_identity_free>>;
using Endpoint = std::unique_ptr<ful_endpoint, Freeing<ful_endpoint_free>>;
using Conn = std::unique_ptr<ful_conn, Freeing<ful_conn_free>>;

static void check(int32_t code) {
    if (code < 0) throw std::runtime_error(ful_error_text(code));
}

// The next event of an endpoint, by poll.
static ful_event next(const Endpoint &endpoint) {
    ful_event event{};
    event.size = sizeof event;
    while (ful_event_next(endpoint.get(), &event) == FUL_WOULDBLOCK) {
        pollfd waits{ful_endpoint_descriptor(endpoint.get()), POLLIN, 0};
        if (poll(&waits, 1, 30000) <= 0) throw std::runtime_error("nothing happens");
    }
    return event;
}

static Conn wait_for(const Endpoint &endpoint) {
    for (;;) {
        ful_conn *raw = nullptr;
        if (next(endpoint).kind == FUL_EVENT_ACCEPT && ful_accept(endpoint.get(), &raw) == FUL_OK) return Conn(raw);
    }
}

static std::string receive(const Endpoint &endpoint, const Conn &conn) {
    char text[2048];
    size_t len = 0;
    int32_t code;
    while ((code = ful_datagram_receive(conn.get(), reinterpret_cast<uint8_t *>(text), sizeof text, &len)) == FUL_WOULDBLOCK)
        next(endpoint);
    check(code);
    return std::string(text, len);
}

static void send(const Conn &conn, const std::string &text) {
    check(ful_datagram_send(conn.get(), reinterpret_cast<const uint8_t *>(text.data()), text.size()));
}

int main() try {
    ful_identity *raw_identity;
    check(ful_identity_generate(&raw_identity));
    Identity identity(raw_identity);
    uint8_t key[32];
    check(ful_identity_public_key(identity.get(), key));

    ful_config config{};
    config.size = sizeof config;
    config.bind = "127.0.0.1:0";
    config.identity = identity.get();
    config.trusted_keys = key;
    config.trusted_count = 1;
    ful_endpoint *raw = nullptr;
    ful_error error{};
    error.size = sizeof error;
    if (ful_endpoint_new(&config, &raw, &error) != FUL_OK) throw std::runtime_error(error.text);
    Endpoint client(raw);
    config.flags = FUL_SERVE;
    if (ful_endpoint_new(&config, &raw, &error) != FUL_OK) throw std::runtime_error(error.text);
    Endpoint server(raw);

    char address[64];
    check(ful_endpoint_address(server.get(), address, sizeof address, nullptr));
    ful_conn *raw_conn = nullptr;
    check(ful_connect(client.get(), address, nullptr, &raw_conn));
    Conn here(raw_conn);
    Conn there = wait_for(server);
    while (next(client).kind != FUL_EVENT_CONNECTED) {}

    send(here, "over the sea");
    send(there, receive(server, there) + " and back");
    std::printf("%s\n", receive(client, here).c_str());

    // More than fits a packet, repaired ahead of loss, and worth nothing after a second.
    ful_datagram_options options{};
    options.size = sizeof options;
    options.kind = FUL_DATAGRAM_REPAIRED;
    options.deadline_ms = 1000;
    const std::string large(1900, 'x');
    const auto *large_data = reinterpret_cast<const uint8_t *>(large.data());
    check(ful_datagram_send_with(there.get(), large_data, large.size(), &options));
    std::printf("%s\n", receive(client, here) == large ? "in pieces, and whole" : "something else");
    options.kind = 9;
    if (ful_datagram_send_with(there.get(), large_data, large.size(), &options) != FUL_ERR_ARGUMENT)
        throw std::runtime_error("there is no such kind");

    size_t len = 0;
    uint8_t small[2];
    send(there, "longer");
    while (ful_datagram_receive(here.get(), small, sizeof small, &len) == FUL_WOULDBLOCK) next(client);
    std::printf("%zu bytes are kept: %s\n", len, receive(client, here).c_str());
    check(ful_conn_shutdown(here.get(), 0, nullptr, 0));
    return 0;
} catch (const std::exception &failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
