//! The client's half of the tunnel: flows through a connection to a gateway that is kept up.

use std::net::SocketAddr;
use std::sync::Arc;

use fulmar::identity::Host;
use tokio::sync::watch;
use tokio::time::Instant;

use super::ahead::{AheadSend, Answering};
use super::incoming;
use super::link::Route;
use super::links::Links;
use super::opening::{Flow, Opener};
use super::reverses::{Reverse, Reverses};
use crate::exit::Failure;
use crate::reach::Manner;
use crate::session::Session;
use crate::tunnel::flow::datagrams::Inbox;
use crate::tunnel::flow::traffic::Traffic;
use crate::tunnel::wire::error::OpenError;
use crate::tunnel::wire::target::Target;

/// A tunnel to a gateway. Cloning gives another handle to it; it ends with the last one.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    links: Links,
    opener: Opener,
    traffic: Arc<Traffic>,
    reverses: Arc<Reverses>,
    tasks: Vec<tokio::task::AbortHandle>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::AbortHandle::abort);
    }
}

impl Client {
    /// Connects to one of these gateways, and stays connected.
    pub async fn connect(gateways: Vec<Host>, manner: Manner) -> Result<Self, Failure> {
        let (reverses, traffic) = (Arc::<Reverses>::default(), Arc::<Traffic>::default());
        let route = Route { gateways, manner, drops: Arc::clone(&traffic.drops) };
        let link = route.connect().await?;
        let (tell, watch) = watch::channel(Some(link));
        let keeping = tokio::spawn(route.keep(tell));
        let coming =
            tokio::spawn(incoming::serve(watch.clone(), Arc::clone(&reverses), Arc::clone(&traffic)));
        let tasks = vec![keeping.abort_handle(), coming.abort_handle()];
        let links = Links::from(watch);
        let opener = Opener::new(links.clone());
        Ok(Self { shared: Arc::new(Shared { links, opener, traffic, reverses, tasks }) })
    }

    /// A flow to `target`, once the gateway has opened it.
    pub async fn open(&self, target: &Target) -> Result<Flow, OpenError> {
        self.shared.opener.open(target).await
    }

    /// A flow to `target` whose first bytes leave before the gateway has answered.
    pub async fn open_ahead(&self, target: &Target) -> Result<(Answering, AheadSend), OpenError> {
        self.shared.opener.open_ahead(target).await
    }

    /// A flow of packets to a UDP port, with the first packet that goes there, once the gateway has opened
    /// it. Those of one association leave the gateway from one port.
    pub async fn open_packets(
        &self,
        target: &Target,
        association: Option<u32>,
        first: &[u8],
    ) -> Result<(Flow, Inbox), OpenError> {
        self.shared.opener.open_packets(target, association, first).await
    }

    /// Has the gateway listen at a place and connects those who come with what is behind it, now and after
    /// each reconnection. Gives where it listens.
    pub async fn listen(&self, reverse: Reverse) -> Result<Option<SocketAddr>, OpenError> {
        let reverses = &self.shared.reverses;
        let link = self.shared.links.other_than(None, Instant::now()).await?;
        let listener = reverses.add(reverse.clone());
        let asked = incoming::ask_first(&link, reverses, listener, &reverse.at).await;
        if asked.is_err() {
            reverses.remove(listener);
        }
        asked
    }

    /// The gateway at the other end now, if there is one.
    pub fn gateway(&self) -> Option<Host> {
        self.shared.links.gateway()
    }

    /// The connection that new flows take now, if there is one.
    pub fn session(&self) -> Option<Session> {
        self.shared.links.session()
    }

    /// What all flows have carried.
    pub fn traffic(&self) -> &Traffic {
        &self.shared.traffic
    }

    /// Flows that were opened and refused since the beginning.
    pub fn counts(&self) -> (u64, u64) {
        self.shared.opener.counts()
    }

    /// Says goodbye.
    pub async fn close(&self) {
        self.shared.tasks.iter().for_each(tokio::task::AbortHandle::abort);
        if let Some(session) = self.session() {
            session.close().await;
        }
    }
}
