//! `config.toml` in `$FULMAR_HOME`: gateways by names of one's own, and what `fulmar up` runs.
//!
//! What stands there is checked when it is read: a file with a mistake changes nothing.

use std::collections::BTreeMap;
use std::net::SocketAddr;
#[cfg(machine)]
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use fulmar::identity::Host;
use serde::Deserialize;

use super::config_values as values;
use super::near::forward::Spec;
use super::near::login::Login;
#[cfg(machine)]
use super::wire::packets::Delivery;
use super::wire::target::Place;
use crate::exit::Failure;
use crate::limits::{self, LimitArgs, Wish};
use crate::listen::{Listen, Ports};
#[cfg(machine)]
use crate::network::Network;
#[cfg(machine)]
use crate::packets::{near::Wanted, route::Route};
use crate::reach::{Certificate, TcpArgs, WayArgs, WayWanted, WebSocketUrl};
#[cfg(machine)]
use crate::transparent::rules::{Mode, Rules};
use crate::trust;

/// The whole file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Gateways by a name that stands for HOST on command lines and below.
    pub hosts: BTreeMap<String, HostConfig>,
    /// A gateway of this machine.
    pub gateway: Option<GatewayConfig>,
    /// Proxies.
    pub proxy: Vec<ProxyConfig>,
    /// Forwards.
    pub forward: Vec<ForwardConfig>,
    /// Tunnels for packets.
    #[cfg(machine)]
    pub tun: Vec<TunConfig>,
    /// Connections that Linux hands over.
    #[cfg(machine)]
    pub transparent: Vec<TransparentConfig>,
    /// Where metrics are offered.
    pub metrics: Option<SocketAddr>,
    /// Rate that all connections of a process keep together, each way, in bits per second.
    #[serde(deserialize_with = "values::rate")]
    pub limit: Option<u64>,
    /// Of what is sent.
    #[serde(deserialize_with = "values::rate")]
    pub limit_up: Option<u64>,
    /// Of what is received.
    #[serde(deserialize_with = "values::rate")]
    pub limit_down: Option<u64>,
}

/// Keeps the rates that the command line names, or config.toml.
pub fn keep_limits(args: &LimitArgs) -> Result<(), Failure> {
    let path = Config::path(trust::home()?.path());
    limits::keep(args, move || Ok(Config::read(&path)?.limits()))
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostConfig {
    /// Gateways, of which the first that answers is taken.
    #[serde(deserialize_with = "values::parsed_list")]
    pub gateways: Vec<Host>,
    /// How to send.
    #[serde(default, deserialize_with = "values::profile")]
    pub profile: Option<String>,
    /// Trust a gateway that is not known yet.
    #[serde(default)]
    pub accept_new: bool,
    /// `udp`, `tcp`, or any of both.
    #[serde(default)]
    pub way: WayWanted,
    /// The gateways' port of TCP, if it is another than that of UDP.
    #[serde(default)]
    pub tcp_port: Option<u16>,
    /// A WebSocket that leads there, as `--websocket`.
    pub websocket: Option<WebSocketUrl>,
    /// Ports of theirs to begin at where the first is not answered, as `--other-ports`.
    #[serde(default, deserialize_with = "values::ports")]
    pub other_ports: Option<Ports>,
    /// Another port is taken so often, as `--hop`.
    #[serde(default, deserialize_with = "values::hop")]
    pub hop: Option<Duration>,
    /// After so long packets of UDP flows are worth nothing, as `--deadline`.
    #[serde(default, deserialize_with = "values::deadline")]
    pub deadline: Option<Duration>,
}

impl HostConfig {
    /// By which ways it is reached.
    pub fn way(&self) -> WayArgs {
        let Self { way, tcp_port, websocket, other_ports, hop, .. } = self.clone();
        WayArgs { way, tcp_port, websocket, other_ports, hop }
    }
}

/// As `fulmar gateway`, and `fulmar serve --gateway` where there is a root.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayConfig {
    /// Where to listen.
    #[serde(deserialize_with = "values::listen", default = "values::listen_default")]
    pub listen: Listen,
    /// Take clients over TCP, too, at the same port.
    #[serde(default)]
    pub tcp: bool,
    /// What strangers see there, in PEM.
    pub tcp_cert: Option<PathBuf>,
    /// Its private key.
    pub tcp_key: Option<PathBuf>,
    /// How to send, to clients that name no profile.
    #[serde(default, deserialize_with = "values::profile")]
    pub profile: Option<String>,
    /// What all connections may hold together, in bytes.
    #[serde(default, deserialize_with = "values::size")]
    pub memory: Option<u64>,
    /// A folder whose files are served at the same port.
    pub root: Option<PathBuf>,
    /// Only give files, take none.
    #[serde(default)]
    pub read_only: bool,
    /// Carry IP packets as well, with addresses from this network.
    #[serde(default, deserialize_with = "values::network")]
    pub tun: Option<String>,
    /// Let those packets go on from here.
    #[serde(default)]
    pub tun_nat: bool,
    /// Let others open connections to clients as well.
    #[serde(default)]
    pub tun_inbound: bool,
}

impl GatewayConfig {
    /// What it says of TCP.
    pub fn tcp(&self) -> TcpArgs {
        let pair = self.tcp_cert.clone().zip(self.tcp_key.clone());
        TcpArgs::new(self.tcp, pair.map(|(chain, key)| Certificate { chain, key }))
    }

    /// What it says of tunnels for packets.
    #[cfg(machine)]
    pub fn tun(&self) -> crate::packets::offer::TunArgs {
        let pool = self.tun.as_ref().and_then(|text| text.parse().ok());
        crate::packets::offer::TunArgs::new(pool, self.tun_nat, self.tun_inbound)
    }
}

/// As `fulmar proxy`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProxyConfig {
    /// A name of `hosts`, or a gateway.
    pub host: String,
    /// Where programs find it.
    #[serde(default = "values::proxy_default")]
    pub listen: SocketAddr,
    /// `NAME:PASSWORD` or `@FILE`.
    #[serde(default, deserialize_with = "values::login")]
    pub user: Option<Login>,
}

/// As `fulmar forward`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForwardConfig {
    /// A name of `hosts`, or a gateway.
    pub host: String,
    /// As `-L`.
    #[serde(default, deserialize_with = "values::parsed_list")]
    pub local: Vec<Spec>,
    /// As `-R`.
    #[serde(default, deserialize_with = "values::parsed_list")]
    pub remote: Vec<Spec>,
    /// As `-D`.
    #[serde(default, deserialize_with = "values::places")]
    pub dynamic: Vec<Place>,
}

/// As `fulmar tun`.
#[cfg(machine)]
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunConfig {
    /// A name of `hosts`, or a gateway.
    pub host: String,
    /// What goes through the tunnel.
    #[serde(default, deserialize_with = "values::parsed_list")]
    pub routes: Vec<Route>,
    /// How packets travel.
    #[serde(default = "values::delivery_default")]
    pub delivery: Delivery,
    /// Longest packet.
    #[serde(default = "values::mtu_default", deserialize_with = "values::mtu")]
    pub mtu: u16,
    /// Name of the device.
    #[serde(default = "values::device_default", deserialize_with = "values::device")]
    pub device: String,
    /// Where this end's addresses may lie.
    #[serde(default, deserialize_with = "values::parsed_list")]
    pub addresses: Vec<Network>,
    /// Whether the far side may open connections to this machine.
    #[serde(default)]
    pub inbound: bool,
}

#[cfg(machine)]
impl TunConfig {
    /// What the tunnel is to be like.
    pub fn wanted(&self) -> Wanted {
        let Self { routes, delivery, mtu, device, addresses, inbound, .. } = self.clone();
        Wanted { routes, delivery, mtu, device, addresses, inbound }
    }
}

/// As `fulmar transparent`.
#[cfg(machine)]
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransparentConfig {
    /// A name of `hosts`, or a gateway.
    pub host: String,
    /// How connections come here.
    #[serde(default)]
    pub mode: Mode,
    /// The port of loopback where they come.
    #[serde(default = "values::transparent_default")]
    pub port: NonZeroU16,
    /// Only to these networks.
    #[serde(default, deserialize_with = "values::parsed_list")]
    pub only: Vec<Network>,
    /// Not to these networks.
    #[serde(default, deserialize_with = "values::parsed_list")]
    pub except: Vec<Network>,
    /// Only of this user's programs.
    #[serde(default, deserialize_with = "values::user")]
    pub user: Option<String>,
}

#[cfg(machine)]
impl TransparentConfig {
    /// What is to be handed over.
    pub fn rules(&self) -> Rules {
        let Self { mode, port, only, except, user, .. } = self.clone();
        Rules { mode, port: port.get(), only, except, user }
    }
}

impl Config {
    /// Where it is, unless another is named.
    pub fn path(home: &Path) -> PathBuf {
        home.join("config.toml")
    }

    /// Reads it. One that is not there is empty; one that others may write to is refused, for it decides what
    /// is served to whom.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        fulmar::identity::check_trusted(path)?;
        match std::fs::read_to_string(path) {
            Ok(text) => {
                Self::parse(&text).map_err(|why| Failure::Usage(format!("{}: {why}", path.display())))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Failure::File(format!("{}: {error}", path.display()))),
        }
    }

    /// The rates that it names.
    pub fn limits(&self) -> Wish {
        Wish::new(self.limit, self.limit_up, self.limit_down)
    }

    /// What this text says, with nothing in it that does not fit together.
    pub fn parse(text: &str) -> Result<Self, String> {
        let config: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        if self.gateway.as_ref().is_some_and(|gateway| gateway.tun_nat && gateway.tun.is_none()) {
            return Err("gateway.tun_nat needs gateway.tun, a network".into());
        }
        if self.gateway.as_ref().is_some_and(|gateway| gateway.tun_inbound && !gateway.tun_nat) {
            return Err("gateway.tun_inbound needs gateway.tun_nat".into());
        }
        if self.gateway.as_ref().is_some_and(|g| g.tcp_cert.is_some() != g.tcp_key.is_some()) {
            return Err("gateway.tcp_cert and gateway.tcp_key go together".into());
        }
        if self.gateway.as_ref().is_some_and(|gateway| gateway.tcp_cert.is_some() && !gateway.tcp) {
            return Err("gateway.tcp_cert needs gateway.tcp".into());
        }
        if let Some((name, _)) = self.hosts.iter().find(|(_, host)| host.gateways.is_empty()) {
            return Err(format!("hosts.{name} has no gateways"));
        }
        if let Some((name, _)) =
            self.hosts.iter().find(|(_, h)| h.tcp_port.and(h.websocket.as_ref()).is_some())
        {
            return Err(format!("hosts.{name}.tcp_port is said by hosts.{name}.websocket already"));
        }
        for host in self.proxy.iter().map(|p| &p.host).chain(self.forward.iter().map(|f| &f.host)) {
            self.host(host)?;
        }
        #[cfg(machine)]
        self.check_of_linux()?;
        Ok(())
    }

    #[cfg(machine)]
    fn check_of_linux(&self) -> Result<(), String> {
        let mut devices = std::collections::BTreeSet::new();
        for tun in &self.tun {
            self.host(&tun.host)?;
            if !devices.insert(&tun.device) {
                return Err(format!("two tunnels want the device {}: name another as `device`", tun.device));
            }
        }
        let mut ports = std::collections::BTreeSet::new();
        for transparent in &self.transparent {
            self.host(&transparent.host)?;
            if !ports.insert(transparent.port) {
                return Err(format!("port {} is wanted twice: name another as `port`", transparent.port));
            }
        }
        Ok(())
    }

    /// What a name stands for: one of `hosts`, or the gateway of that name.
    pub fn host(&self, name: &str) -> Result<HostConfig, String> {
        if let Some(host) = self.hosts.get(name) {
            return Ok(host.clone());
        }
        let gateway = Host::from_str(name).map_err(|error| error.to_string())?;
        let WayArgs { way, tcp_port, websocket, other_ports, hop } = WayArgs::default();
        let (gateways, profile, accept_new, deadline) = (vec![gateway], None, false, None);
        Ok(HostConfig { gateways, profile, accept_new, way, tcp_port, websocket, other_ports, hop, deadline })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, Failure> {
        let folder = tempfile::tempdir().unwrap();
        let path = Config::path(folder.path());
        std::fs::write(&path, text).unwrap();
        Config::read(&path)
    }

    #[test]
    fn a_file_with_everything_in_it() {
        let config = read(
            r#"
            metrics = "127.0.0.1:9100"
            limit = "20M"
            limit_down = "1.5M"
            [hosts.home]
            gateways = ["gw.example.org:443", "gw2.example.org"]
            profile = "cubic"
            accept_new = true
            way = "tcp"
            other_ports = "20000-20100"
            websocket = "wss://www.example.org/gw"
            hop = "30s"
            deadline = "60ms"
            [gateway]
            listen = ":443,20000-20100"
            tcp = true
            tcp_cert = "/etc/cert.pem"
            tcp_key = "/etc/key.pem"
            memory = "512M"
            root = "/srv/files"
            tun = "10.97.0.0/16"
            tun_nat = true
            [[proxy]]
            host = "home"
            user = "me:secret"
            [[forward]]
            host = "192.0.2.1"
            local = ["5432:db:5432", "53:dns:53/udp"]
            remote = ["8080:localhost:80"]
            dynamic = ["1081"]
            [[tun]]
            host = "home"
            routes = ["10.0.0.0/8", "default"]
            [[tun]]
            host = "192.0.2.1"
            device = "other"
            mtu = 9000
            delivery = "in-order"
            addresses = ["10.8.0.0/16"]
            inbound = true
            [[transparent]]
            host = "home"
            mode = "tproxy"
            only = ["10.0.0.0/8"]
            "#,
        )
        .unwrap();
        assert_eq!(
            (config.tun[0].wanted().device.as_str(), config.tun[0].routes.len()),
            (crate::packets::near::DEVICE, 2)
        );
        assert_eq!((config.tun[1].mtu, config.tun[1].delivery), (9000, Delivery::InOrder));
        assert!(config.tun[1].wanted().inbound && !config.tun[0].wanted().inbound);
        assert_eq!((config.tun[0].addresses.len(), config.tun[1].wanted().addresses.len()), (0, 1));
        assert_eq!((config.transparent[0].mode, config.transparent[0].rules().port), (Mode::Tproxy, 1081));
        assert_eq!(config.host("home").unwrap().gateways[1].port(), 4747);
        let WayArgs { way, websocket, other_ports, hop, .. } = config.host("home").unwrap().way();
        assert_eq!((way, hop), (WayWanted::Tcp, Some(Duration::from_secs(30))));
        assert_eq!(websocket.unwrap().to_string(), "wss://www.example.org/gw");
        assert_eq!(other_ports.unwrap().to_string(), "20000-20100");
        assert_eq!(config.host("a").unwrap().way(), WayArgs::default());
        assert_eq!(config.host("home").unwrap().deadline, Some(Duration::from_millis(60)));
        assert_eq!(config.limits(), Wish::new(None, Some(20_000_000), Some(1_500_000)));
        let gateway = config.gateway.unwrap();
        assert_eq!((gateway.listen.address.port(), gateway.memory), (443, Some(512 << 20)));
        assert_eq!(gateway.listen.ports(443), [443..=443, 20_000..=20_100]);
        assert_eq!(config.proxy[0].listen, values::proxy_default());
        assert_eq!((config.forward[0].local.len(), config.forward[0].dynamic[0].port), (2, 1081));
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        for (text, words) in [
            ("[gateway]\nlisten = \"nowhere\"", "line 2"),
            ("[gateway]\nroot = 5", "line 2"),
            ("[gateway]\nmemory = \"much\"", "line 2"),
            ("limit_up = \"fast\"", "line 1"),
            ("[gateway]\ntun = \"10.97.0.0\"", "10.97.0.0/16"),
            ("[gateway]\ntun = \"10.97.0.1/16\"", "10.97.0.0/16"),
            ("[gateway]\ntun_nat = true", "gateway.tun"),
            ("[gateway]\ntun = \"10.97.0.0/16\"\ntun_inbound = true", "gateway.tun_nat"),
            ("[[tun]]\nhost = \"a\"\naddresses = [\"::ffff:10.0.0.0/8\"]", "96 bits"),
            ("[[tun]]\nhost = \"a\"\nroutes = [\"10.0.0.1/8\"]", "10.0.0.0/8"),
            ("[[transparent]]\nhost = \"a\"\nonly = [\"10.0.0.1/8\"]", "10.0.0.0/8"),
            ("[gateway]\ntcp_cert = \"a\"\ntcp_key = \"b\"", "gateway.tcp"),
            ("[gateway]\ntcp = true\ntcp_cert = \"a\"", "gateway.tcp_key"),
            ("[hosts.a]\ngateways = [\"x\"]\nway = \"ship\"", "ship"),
            ("[hosts.a]\ngateways = [\"x\"]\nwebsocket = \"ws://a/\"", "wss://"),
            ("[hosts.a]\ngateways = [\"x\"]\ntcp_port = 1\nwebsocket = \"wss://a/\"", "hosts.a.tcp_port"),
            ("speed = 9", "unknown field"),
            ("[hosts.a]\ngateways = []", "hosts.a"),
            ("[hosts.a]\ngateways = [\"x y\"]", "x y"),
            ("[hosts.a]\ngateways = [\"x\"]\nprofile = \"warp\"", "warp"),
            ("[[proxy]]\nhost = \"a b\"", "a b"),
            ("[[forward]]\nhost = \"a\"\nlocal = [\"80\"]", "`80`"),
            ("[[tun]]\nhost = \"a\"\nmtu = 1279", "1280 to 9000"),
            ("[[tun]]\nhost = \"a\"\ndevice = \"../x\"", "../x"),
            ("[[tun]]\nhost = \"a\"\nroutes = [\"10/8\"]", "10/8"),
            ("[[tun]]\nhost = \"a\"\n[[tun]]\nhost = \"b\"", "`device`"),
            ("[[transparent]]\nhost = \"a\"\nuser = \"0; flush\"", "0; flush"),
            ("[[transparent]]\nhost = \"a\"\nport = 0", "line 3"),
            ("[[proxy]]\nhost = \"a\"\nuser = \"nobody\"", "NAME:PASSWORD"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains("config.toml") && error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_file_that_others_may_write_to_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = Config::path(folder.path());
        std::fs::write(&path, "metrics = \"127.0.0.1:9100\"").unwrap();
        let set_mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap()
        };
        set_mode(&path, 0o666);
        let error = Config::read(&path).unwrap_err().to_string();
        assert!(error.contains("config.toml") && error.contains("mode 666"), "{error}");
        set_mode(&path, 0o644);
        Config::read(&path).unwrap();
        set_mode(folder.path(), 0o777);
        assert!(Config::read(&path).unwrap_err().to_string().contains("mode 777"));
    }

    #[test]
    fn no_file_is_an_empty_one() {
        assert_eq!(Config::read(Path::new("/no/such/config.toml")), Ok(Config::default()));
    }
}
