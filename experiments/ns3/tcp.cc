// ns-3's TCP over the links of the laboratory: bulk flows over one bottleneck with a drop-tail queue, loss on the wire of data packets
// (fwd-only), and access links where there are some. Prints the goodput of all flows in Mb/s, from the first byte to the end of the run,
// then fast recoveries, retransmission timeouts, and packets that the bottleneck's queue dropped.
// scripts/ns3-tcp and scripts/ns3-yardstick compile and run it.
#include <ns3/applications-module.h>
#include <ns3/core-module.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>
#include <ns3/traffic-control-module.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <list>

using namespace ns3;

// IPv4, TCP with timestamps, and the 2 bytes of PPP on the link.
constexpr uint32_t HEADER_BYTES = 54, MEMORY_BYTES = 64 << 20;
constexpr uint16_t PORT = 5201;

// ns-3's NewReno less two of its own ways. It adds segment^2 / window to the window at each ACK, as whole bytes: with a window of 300
// segments of 1000 bytes 3 for 3.3, and never less than 1. And after a timeout, when all has arrived that was sent before it, the
// duplicate ACKs of what was sent again without need make it enter fast recovery; by RFC 6582 3.2 step 2 an ACK must cover more.
class NewRenoByRfc : public TcpNewReno {
public:
    static TypeId GetTypeId() {
        static TypeId id = TypeId("ns3::NewRenoByRfc").SetParent<TcpNewReno>().AddConstructor<NewRenoByRfc>();
        return id;
    }
    Ptr<TcpCongestionOps> Fork() override { return CopyObject<NewRenoByRfc>(this); }

    void CwndEvent(Ptr<TcpSocketState> state, const TcpSocketState::TcpCAEvent_t event) override {
        if (event == TcpSocketState::CA_EVENT_LOSS) recover = state->m_highTxMark;
    }

    uint32_t GetSsThresh(Ptr<const TcpSocketState> state, uint32_t in_flight_bytes) override {
        bool is_needless = state->m_congState == TcpSocketState::CA_RECOVERY && state->m_lastAckedSeq == recover;
        return is_needless ? state->m_ssThresh.Get() : TcpNewReno::GetSsThresh(state, in_flight_bytes);
    }

protected:
    void CongestionAvoidance(Ptr<TcpSocketState> state, uint32_t segments) override {
        if (segments == 0) return;
        double segment_bytes = state->m_segmentSize;
        rest_bytes += segment_bytes * segment_bytes / state->m_cWnd.Get();
        state->m_cWnd += uint32_t(rest_bytes);
        rest_bytes -= uint32_t(rest_bytes);
    }

private:
    double rest_bytes = 0;
    SequenceNumber32 recover{0};
};
NS_OBJECT_ENSURE_REGISTERED(NewRenoByRfc);

static uint64_t received_bytes = 0, recoveries = 0, timeouts = 0, drops = 0;
static Time first = Seconds(-1);
static bool has_trace = false;

// A line of the trace: time, flow, what, value.
static void Say(int flow, const char* what, double value) {
    if (has_trace) std::fprintf(stderr, "%.6f %d %s %.6g\n", Simulator::Now().GetSeconds(), flow, what, value);
}

static void OnReceived(Ptr<const Packet> packet, const Address&) {
    if (received_bytes == 0) first = Simulator::Now();
    received_bytes += packet->GetSize();
}

static void OnState(int flow, TcpSocketState::TcpCongState_t, TcpSocketState::TcpCongState_t state) {
    if (state != TcpSocketState::CA_RECOVERY) return;
    recoveries++;
    Say(flow, "recovery", 1);
}

// Nothing but a timeout doubles the timer, whose most is 60 s.
static void OnTimer(int flow, Time before, Time now) {
    if (before.IsZero() || now != std::min(before + before, Seconds(60))) return;
    timeouts++;
    Say(flow, "timeout", now.GetSeconds());
}

static void OnWindow(int flow, uint32_t, uint32_t bytes) { Say(flow, "window", bytes); }

static void OnDrop(Ptr<const Packet>) {
    drops++;
    Say(-1, "drop", 1);
}

// A socket is there once its application has begun.
static void Watch(int flow, Ptr<Application> sender) {
    Ptr<Socket> socket = DynamicCast<BulkSendApplication>(sender)->GetSocket();
    socket->TraceConnectWithoutContext("CongState", MakeBoundCallback(&OnState, flow));
    socket->TraceConnectWithoutContext("RTO", MakeBoundCallback(&OnTimer, flow));
    socket->TraceConnectWithoutContext("CongestionWindow", MakeBoundCallback(&OnWindow, flow));
}

int main(int argc, char** argv) {
    std::string congestion = "TcpNewReno", recovery = "TcpPrrRecovery", rate = "100Mbps", access, lost;
    double rtt_ms = 20, loss = 0.01, seconds = 30, access_ms = 0, access_ms_last = -1, start_within = 0;
    // As the kernel has them. An ACK that may wait as long as the least timeout would let the timeout come first.
    double rto_min = 0.2, ack_delay = 0.04;
    uint32_t seed = 1, flows = 1, queue_packets = 0, segment_bytes = 1448, window = 10, acks = 2;
    bool has_sack = true;
    CommandLine words;
    words.AddValue("cc", "TcpLinuxReno, TcpNewReno, NewRenoByRfc, TcpCubic", congestion);
    words.AddValue("recovery", "TcpPrrRecovery, TcpClassicRecovery", recovery);
    words.AddValue("rate", "of the bottleneck", rate);
    words.AddValue("rtt", "of the bottleneck, ms", rtt_ms);
    words.AddValue("queue", "of the bottleneck, packets; 0 for a bandwidth-delay product", queue_packets);
    words.AddValue("loss", "probability, forward", loss);
    words.AddValue("lost", "file with the numbers of the packets that are lost instead, forward, from 0", lost);
    words.AddValue("access", "rate of a flow's link at either end; empty for none", access);
    words.AddValue("access-delay", "of the first flow's, one way, ms", access_ms);
    words.AddValue("access-delay-last", "of the last flow's, those between are spread evenly; -1: of all alike", access_ms_last);
    words.AddValue("flows", "how many", flows);
    words.AddValue("start-within", "s, drawn for each flow", start_within);
    words.AddValue("segment", "bytes of data in a packet", segment_bytes);
    words.AddValue("window", "at the start, packets", window);
    words.AddValue("sack", "selective acknowledgements", has_sack);
    words.AddValue("acks", "packets that an ACK waits for", acks);
    words.AddValue("ack-delay", "longest wait, s", ack_delay);
    words.AddValue("rto-min", "s", rto_min);
    words.AddValue("seconds", "of the run", seconds);
    words.AddValue("seed", "of every draw", seed);
    words.AddValue("trace", "windows, recoveries, timeouts and drops on standard error", has_trace);
    words.Parse(argc, argv);

    RngSeedManager::SetSeed(seed);
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::" + congestion)));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TypeId::LookupByName("ns3::" + recovery)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(segment_bytes));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(window));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(acks));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(Seconds(ack_delay)));
    // Memory limits no flow (where it does, ns-3.37 crashes in recovery with SACK), and no flow gives up.
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(MEMORY_BYTES));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(MEMORY_BYTES));
    Config::SetDefault("ns3::TcpSocket::DataRetries", UintegerValue(1000));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(rto_min)));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(has_sack));

    NodeContainer routers;
    routers.Create(2);
    double bdp_bytes = double(DataRate(rate).GetBitRate()) / 8 * rtt_ms / 1e3;
    if (queue_packets == 0) queue_packets = std::max(1, int(bdp_bytes / (segment_bytes + HEADER_BYTES)));
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue(rate));
    link.SetDeviceAttribute("Mtu", UintegerValue(1500));
    link.SetChannelAttribute("Delay", TimeValue(MicroSeconds(int64_t(rtt_ms * 500))));
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue(std::to_string(queue_packets) + "p"));
    NetDeviceContainer devices = link.Install(routers);
    Ptr<RateErrorModel> errors = CreateObject<RateErrorModel>();
    errors->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
    errors->SetRate(loss);
    devices.Get(1)->SetAttribute("ReceiveErrorModel", PointerValue(errors));
    if (!lost.empty()) {
        std::ifstream file(lost);
        std::list<uint32_t> numbers{std::istream_iterator<uint32_t>(file), {}};
        Ptr<ReceiveListErrorModel> chosen = CreateObject<ReceiveListErrorModel>();
        chosen->SetList(numbers);
        devices.Get(1)->SetAttribute("ReceiveErrorModel", PointerValue(chosen));
    }

    // No queueing discipline above a device: its queue is the link's.
    InternetStackHelper stack;
    stack.Install(routers);
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
    TrafficControlHelper().Uninstall(devices);
    // A full queue stops its device, and what comes then is dropped a layer above.
    routers.Get(0)->GetObject<TrafficControlLayer>()->TraceConnectWithoutContext("TcDrop", MakeCallback(&OnDrop));

    Ptr<UniformRandomVariable> draw = CreateObject<UniformRandomVariable>();
    for (uint32_t flow = 0; flow < flows; flow++) {
        Ptr<Node> ends[2] = {routers.Get(0), routers.Get(1)};
        Ipv4Address to = interfaces.GetAddress(1);
        double spread_ms = access_ms_last < 0 || flows < 2 ? 0 : (access_ms_last - access_ms) * flow / (flows - 1);
        PointToPointHelper own;
        own.SetDeviceAttribute("DataRate", StringValue(access.empty() ? rate : access));
        own.SetDeviceAttribute("Mtu", UintegerValue(1500));
        own.SetChannelAttribute("Delay", TimeValue(MicroSeconds(int64_t((access_ms + spread_ms) * 1e3))));
        own.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1000000p"));
        for (int end = 0; end < 2 && !access.empty(); end++) {
            Ptr<Node> host = CreateObject<Node>();
            stack.Install(host);
            NetDeviceContainer pair = own.Install(host, routers.Get(end));
            addresses.NewNetwork();
            to = addresses.Assign(pair).GetAddress(0);
            TrafficControlHelper().Uninstall(pair);
            ends[end] = host;
        }
        InetSocketAddress receiver(to, PORT + flow);
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), PORT + flow));
        sink.Install(ends[1]).Get(0)->TraceConnectWithoutContext("Rx", MakeCallback(&OnReceived));
        BulkSendHelper bulk("ns3::TcpSocketFactory", receiver);
        bulk.SetAttribute("SendSize", UintegerValue(segment_bytes));
        Time start = Seconds(start_within * draw->GetValue());
        ApplicationContainer sender = bulk.Install(ends[0]);
        sender.Start(start);
        Simulator::Schedule(start + NanoSeconds(1), &Watch, int(flow), sender.Get(0));
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    double mbps = received_bytes > 0 ? double(received_bytes) * 8e-6 / (seconds - first.GetSeconds()) : 0;
    std::printf("%.4f %lu %lu %lu\n", mbps, recoveries, timeouts, drops);
    Simulator::Destroy();
}
