//! The congestion controllers: one row each, with its name, its maker, and whether it obeys.

use std::sync::Arc;

use fulmar_control as control;
use fulmar_control::{CongestionController, WindowConfig};

use super::make::Make;
use super::values::Values;

/// A window that neither begins larger nor stays larger whatever happens is one that obeys (RFC 6928).
const OBEYING_PACKETS_MAX: u64 = 10;

/// A congestion controller that the setting `cc` chooses.
struct Controller {
    name: &'static str,
    /// It sends less when packets are lost or delayed.
    obeys: bool,
    make: fn(&Values) -> Make<dyn CongestionController>,
}

const CONTROLLERS: [Controller; 9] = [
    Controller {
        name: "auto",
        obeys: true,
        make: |values| {
            let without = control::Mechanism::named(values.word("without"));
            let trials = control::Trials { trains: values.flag("trains"), carried: values.flag("carried") };
            Arc::new(move |context| {
                Box::new(control::Auto::new(context.mtu_bytes).without(without).with(trials))
            })
        },
    },
    Controller { name: "cubic", obeys: true, make: cubic },
    Controller {
        name: "newreno",
        obeys: true,
        make: |values| {
            let window = window(values);
            Arc::new(move |context| Box::new(control::NewReno::new(context.mtu_bytes, window)))
        },
    },
    Controller {
        name: "reno",
        obeys: true,
        make: |values| {
            let window = window(values);
            Arc::new(move |context| Box::new(control::Reno::new(context.mtu_bytes, window)))
        },
    },
    Controller {
        name: "ecn-only",
        obeys: false,
        make: |values| {
            let window = window(values);
            Arc::new(move |context| Box::new(control::EcnOnly::new(context.mtu_bytes, window)))
        },
    },
    Controller {
        name: "ctcp",
        obeys: true,
        make: |values| {
            let window = window(values);
            Arc::new(move |context| Box::new(control::Ctcp::new(context.mtu_bytes, window)))
        },
    },
    Controller {
        name: "tcp-fec",
        obeys: true,
        make: |values| {
            let (window, reduction) = (window(values), values.number("r"));
            Arc::new(move |context| Box::new(control::TcpFec::new(context.mtu_bytes, window, reduction)))
        },
    },
    Controller {
        name: "grow-only",
        obeys: false,
        make: |values| {
            let window = window(values);
            Arc::new(move |context| Box::new(control::GrowOnly::new(context.mtu_bytes, window)))
        },
    },
    Controller { name: "unlimited", obeys: false, make: unlimited },
];

/// The words of the setting `cc`.
pub(super) const NAMES: [&str; CONTROLLERS.len()] = {
    let mut names = [""; CONTROLLERS.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = CONTROLLERS[index].name;
        index += 1;
    }
    names
};

fn chosen(values: &Values) -> &'static Controller {
    const { &CONTROLLERS }
        .iter()
        .find(|row| row.name == values.word("cc"))
        .unwrap_or_else(|| unreachable!("the setting takes the names of this table"))
}

/// Whether what `values` describe sends less when packets are lost or delayed, so that a stranger may choose it.
pub(super) fn obeys(values: &Values) -> bool {
    let windows = [values.integer("iw"), values.integer("wmin")];
    chosen(values).obeys && windows.into_iter().all(|packets| packets <= OBEYING_PACKETS_MAX)
}

pub(super) fn congestion(values: &Values) -> Make<dyn CongestionController> {
    let inner = (chosen(values).make)(values);
    let (is_masked, window_bytes) = (values.flag("masked"), values.integer("rwnd"));
    if !is_masked && window_bytes == 0 {
        return inner;
    }
    Arc::new(move |context| {
        let mut controller = inner(context);
        if is_masked {
            controller = Box::new(control::AboveCode::new(controller));
        }
        if window_bytes > 0 {
            controller = Box::new(control::ReceiveWindow::new(context.mtu_bytes, controller, window_bytes));
        }
        controller
    })
}

fn window(values: &Values) -> WindowConfig {
    let mut window = WindowConfig::default();
    window.initial_packets = values.integer_u32("iw");
    window.min_packets = values.integer_u32("wmin");
    window.is_paced = values.flag("paced");
    window.is_timeout_final = values.word("timeout") == "rto";
    window
}

fn cubic(values: &Values) -> Make<dyn CongestionController> {
    let window = window(values);
    Arc::new(move |context| {
        let mut config = control::CubicConfig::default();
        config.window = window;
        Box::new(control::Cubic::new(context.mtu_bytes, config))
    })
}

/// DFCP's token bucket, or none.
fn unlimited(values: &Values) -> Make<dyn CongestionController> {
    let by_rate = control::TokenBucket::inctokens_for(values.number("rate"));
    let inctokens = match values.integer("inctokens") {
        0 => by_rate,
        inctokens => inctokens,
    };
    if inctokens == 0 {
        return Arc::new(|context| Box::new(control::Unlimited::new(context.mtu_bytes, Default::default())));
    }
    let maxtokens = match values.integer("maxtokens") {
        0 => inctokens,
        maxtokens => maxtokens,
    };
    let inttokens = values.integer_u32("inttokens");
    let bucket =
        control::TokenBucket { maxtokens, numtokens: values.integer("numtokens"), inctokens, inttokens };
    Arc::new(move |context| Box::new(control::Unlimited::with_tokens(context.mtu_bytes, bucket)))
}
