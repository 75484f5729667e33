// ns-3's TCP over the link of the laboratory: one bulk flow, rate, drop-tail queue of one bandwidth-delay product, loss on
// the wire of data packets (fwd-only), segments of 1448 bytes. Prints the goodput from the first byte to the end of the run.
// scripts/ns3-tcp compiles and runs it.
#include <ns3/applications-module.h>
#include <ns3/core-module.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>
#include <ns3/traffic-control-module.h>

#include <cstdio>

using namespace ns3;

// 1448 bytes of data make an IP packet of 1500 with IPv4, TCP and timestamps; PPP adds 2 bytes on the link.
constexpr uint32_t SEGMENT_BYTES = 1448, PACKET_BYTES = 1502;

static uint64_t received_bytes = 0;
static Time first = Seconds(-1);

static void OnReceived(Ptr<const Packet> packet, const Address&) {
    if (received_bytes == 0) first = Simulator::Now();
    received_bytes += packet->GetSize();
}

int main(int argc, char** argv) {
    std::string congestion = "TcpNewReno", rate = "100Mbps";
    double rtt_ms = 20, loss = 0.01, seconds = 30;
    uint32_t seed = 1;
    CommandLine words;
    words.AddValue("cc", "TcpLinuxReno, TcpNewReno, TcpCubic", congestion);
    words.AddValue("rate", "of the link", rate);
    words.AddValue("rtt", "ms", rtt_ms);
    words.AddValue("loss", "probability, forward", loss);
    words.AddValue("seconds", "of the run", seconds);
    words.AddValue("seed", "of every draw", seed);
    words.Parse(argc, argv);

    RngSeedManager::SetSeed(seed);
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::" + congestion)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(SEGMENT_BYTES));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    // What the kernel's TCP has, so that windows and timers are alike: memory of 64 MiB, RTO of 200 ms at least.
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(64 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(64 << 20));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));

    NodeContainer nodes;
    nodes.Create(2);
    double bdp_bytes = double(DataRate(rate).GetBitRate()) / 8 * rtt_ms / 1e3;
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue(rate));
    link.SetDeviceAttribute("Mtu", UintegerValue(1500));
    link.SetChannelAttribute("Delay", TimeValue(MicroSeconds(int64_t(rtt_ms * 500))));
    auto packets = std::to_string(std::max(1, int(bdp_bytes / PACKET_BYTES))) + "p";
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue(packets));
    NetDeviceContainer devices = link.Install(nodes);
    Ptr<RateErrorModel> errors = CreateObject<RateErrorModel>();
    errors->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
    errors->SetRate(loss);
    devices.Get(1)->SetAttribute("ReceiveErrorModel", PointerValue(errors));

    InternetStackHelper().Install(nodes);
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
    // No queueing discipline above the device: its queue is the link's.
    TrafficControlHelper().Uninstall(devices);

    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 5201));
    ApplicationContainer receiver = sink.Install(nodes.Get(1));
    receiver.Get(0)->TraceConnectWithoutContext("Rx", MakeCallback(&OnReceived));
    BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(interfaces.GetAddress(1), 5201));
    bulk.SetAttribute("SendSize", UintegerValue(SEGMENT_BYTES));
    bulk.Install(nodes.Get(0));

    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    double span = seconds - first.GetSeconds();
    std::printf("%.4f\n", received_bytes > 0 ? double(received_bytes) * 8e-6 / span : 0.0);
    Simulator::Destroy();
}
