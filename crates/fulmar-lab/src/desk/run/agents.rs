//! The agents that are there, and what they do for a run.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::mpsc;

use crate::desk::board::Board;
use crate::desk::control::{Order, Report};
use crate::desk::types::{Agent, Role};

/// Agents that are known, those that were lost included.
const MEMBERS_MAX: usize = 256;
/// Reports that a run may be behind.
const REPORTS_MAX: usize = 1024;

/// What a report is about, and who made it.
pub(crate) type Told = (Role, Report, Vec<u8>);

/// One agent.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) wanted: Option<Role>,
    pub(crate) address: String,
    pub(crate) data_address: String,
    /// Its public key, in full and as people compare it.
    pub(crate) key: String,
    pub(crate) fingerprint: String,
    pub(crate) orders: mpsc::Sender<(Order, Vec<u8>)>,
    role: Role,
    is_connected: bool,
    since: Instant,
}

impl Member {
    pub(crate) fn new(
        hello: Report,
        address: String,
        orders: mpsc::Sender<(Order, Vec<u8>)>,
    ) -> Option<Self> {
        let Report::Hello { name, role, data_address, key, .. } = hello else { return None };
        let fingerprint = crate::desk::control::parse_key(&key).ok()?.fingerprint().to_string();
        Some(Self {
            number: 0,
            name: name.chars().filter(|c| !c.is_control()).take(40).collect(),
            wanted: role,
            address,
            data_address,
            key,
            fingerprint,
            orders,
            role: Role::Spare,
            is_connected: true,
            since: Instant::now(),
        })
    }

    /// Tells it something.
    pub(crate) async fn order(&self, order: Order, beside: Vec<u8>) -> Result<(), String> {
        self.orders.send((order, beside)).await.map_err(|_| lost(&self.name))
    }
}

/// What is said of an agent whose control connection has ended in the middle of a run.
pub(crate) fn lost(name: &str) -> String {
    format!(
        "the agent '{name}' was lost in the middle of the run: its process has ended, or its machine cannot be reached. \
         When it is back it takes part in the next run"
    )
}

/// All agents.
#[derive(Debug)]
pub(crate) struct Agents {
    board: Arc<Board>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    members: Vec<Member>,
    next_number: u64,
    /// The run that listens.
    listener: Option<mpsc::Sender<Told>>,
}

impl Agents {
    pub(crate) fn new(board: Arc<Board>) -> Arc<Self> {
        Arc::new(Self { board, inner: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An agent has come. The one of the same key and name that was there before is lost, and forgotten.
    pub(crate) async fn join(&self, mut member: Member) -> (u64, Role) {
        let before = {
            let inner = self.lock();
            let is_same = |m: &&Member| m.is_connected && (&m.key, &m.name) == (&member.key, &member.name);
            inner.members.iter().find(is_same).map(|member| member.number)
        };
        if let Some(before) = before {
            self.leave(before).await;
        }
        let mut inner = self.lock();
        inner.next_number += 1;
        member.number = inner.next_number;
        let number = member.number;
        inner.members.retain(|m| m.is_connected || (&m.key, &m.name) != (&member.key, &member.name));
        if inner.members.len() >= MEMBERS_MAX {
            inner.members.retain(|m| m.is_connected);
        }
        inner.members.push(member);
        assign(&mut inner.members);
        let role = inner.members.last().map_or(Role::Spare, |member| member.role);
        self.show(inner);
        (number, role)
    }

    /// An agent is gone: whoever waits for it is told.
    pub(crate) async fn leave(&self, number: u64) {
        let Some((role, name, listener)) = self.strike_off(number) else { return };
        if let Some(listener) = listener.filter(|_| role != Role::Spare) {
            let _ = listener.send((role, Report::Lost { name }, Vec::new())).await;
        }
    }

    /// What an agent was, and who has to know that it is gone.
    fn strike_off(&self, number: u64) -> Option<(Role, String, Option<mpsc::Sender<Told>>)> {
        let mut inner = self.lock();
        let member =
            inner.members.iter_mut().find(|member| member.number == number && member.is_connected)?;
        member.is_connected = false;
        member.since = Instant::now();
        let (role, name) = (member.role, member.name.clone());
        assign(&mut inner.members);
        let listener = inner.listener.clone();
        self.show(inner);
        Some((role, name, listener))
    }

    /// An agent says something.
    pub(crate) async fn report(&self, number: u64, report: Report, beside: Vec<u8>) {
        let (role, listener) = {
            let inner = self.lock();
            let role = inner.members.iter().find(|member| member.number == number).map(|member| member.role);
            (role, inner.listener.clone())
        };
        if let (Some(role), Some(listener)) = (role, listener) {
            // A run that is over does not care.
            let _ = listener.send((role, report, beside)).await;
        }
    }

    /// The two that carry out a run, and what they will say from now on.
    pub(crate) fn take_pair(&self) -> Result<(Member, Member, mpsc::Receiver<Told>), String> {
        let mut inner = self.lock();
        let find = |role: Role| inner.members.iter().find(|m| m.is_connected && m.role == role).cloned();
        let missing =
            |what: &str| format!("there is no agent to {what}: start `fulmar-lab agent` at that end");
        let sender = find(Role::Sender).ok_or_else(|| missing("send"))?;
        let receiver = find(Role::Receiver).ok_or_else(|| missing("receive"))?;
        let (listener, told) = mpsc::channel(REPORTS_MAX);
        inner.listener = Some(listener);
        Ok((sender, receiver, told))
    }

    /// Tells the board who is there.
    fn show(&self, inner: MutexGuard<'_, Inner>) {
        let agents = inner.members.iter().map(|member| Agent {
            name: member.name.clone(),
            role: member.role,
            address: member.address.clone(),
            data_address: member.data_address.clone(),
            key: member.fingerprint.clone(),
            connected: member.is_connected,
            since_s: member.since.elapsed().as_secs_f64(),
        });
        let agents = agents.collect();
        drop(inner);
        self.board.set_agents(agents);
    }
}

/// One sends and one receives: who wants to, or who came first. Whoever has a place keeps it.
fn assign(members: &mut [Member]) {
    for role in [Role::Sender, Role::Receiver] {
        if members.iter().any(|member| member.is_connected && member.role == role) {
            continue;
        }
        let is_free = |m: &&mut Member| m.is_connected && m.role == Role::Spare;
        let wants = members.iter_mut().filter(is_free).find(|m| m.wanted == Some(role));
        let chosen = match wants {
            Some(member) => Some(member),
            None => members.iter_mut().filter(is_free).find(|member| member.wanted.is_none()),
        };
        if let Some(member) = chosen {
            member.role = role;
        }
    }
}
