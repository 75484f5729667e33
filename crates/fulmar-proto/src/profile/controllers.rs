//! The congestion controllers: one row each, with its name, its maker, and whether it obeys.

use std::sync::Arc;

use fulmar_control as control;
use fulmar_control::{CongestionController, WindowConfig};

use super::choice::{Row, chosen, names, row};
use super::make::Make;
use super::policies::is_asked_by_tcp;
use super::values::Values;

/// A window that neither begins larger nor stays larger whatever happens is one that obeys (RFC 6928).
const OBEYING_PACKETS_MAX: u64 = 10;

/// A congestion controller that the setting `cc` chooses.
struct Controller {
    /// It sends less when packets are lost or delayed.
    obeys: bool,
    /// It has a window, with the settings of one.
    is_windowed: bool,
    make: fn(&Values) -> Make<dyn CongestionController>,
}

const fn windowed(
    name: &'static str,
    obeys: bool,
    make: fn(&Values) -> Make<dyn CongestionController>,
) -> Row<Controller> {
    row(name, Controller { obeys, is_windowed: true, make })
}

const CONTROLLERS: [Row<Controller>; 10] = [
    row(
        "auto",
        Controller {
            obeys: true,
            is_windowed: false,
            make: |values| {
                let without = control::Mechanism::named(values.word("without"));
                Arc::new(move |context| Box::new(control::Auto::new(context.mtu_bytes).without(without)))
            },
        },
    ),
    windowed("cubic", true, cubic),
    row(
        "bbr",
        Controller {
            // Version 1 takes no loss for congestion.
            obeys: false,
            is_windowed: false,
            make: |_values| Arc::new(|context| Box::new(control::Bbr::new(context.mtu_bytes))),
        },
    ),
    windowed("newreno", true, |values| {
        let window = window(values);
        Arc::new(move |context| Box::new(control::NewReno::new(context.mtu_bytes, window)))
    }),
    windowed("reno", true, |values| {
        let window = window(values);
        Arc::new(move |context| Box::new(control::Reno::new(context.mtu_bytes, window)))
    }),
    windowed("ecn-only", false, |values| {
        let window = window(values);
        Arc::new(move |context| Box::new(control::EcnOnly::new(context.mtu_bytes, window)))
    }),
    windowed("ctcp", true, |values| {
        let window = window(values);
        Arc::new(move |context| Box::new(control::Ctcp::new(context.mtu_bytes, window)))
    }),
    windowed("tcp-fec", true, tcp_fec),
    windowed("grow-only", false, |values| {
        let window = window(values);
        Arc::new(move |context| Box::new(control::GrowOnly::new(context.mtu_bytes, window)))
    }),
    row("unlimited", Controller { obeys: false, is_windowed: false, make: unlimited }),
];

/// The words of the setting `cc`.
pub(super) const NAMES: [&str; CONTROLLERS.len()] = names(&CONTROLLERS);

const WINDOWED_COUNT: usize = {
    let (mut count, mut index) = (0, 0);
    while index < CONTROLLERS.len() {
        count += CONTROLLERS[index].what.is_windowed as usize;
        index += 1;
    }
    count
};

/// Those of them that have a window.
pub(super) const WINDOWED: [&str; WINDOWED_COUNT] = {
    let (mut names, mut count, mut index) = ([""; WINDOWED_COUNT], 0, 0);
    while index < CONTROLLERS.len() {
        if CONTROLLERS[index].what.is_windowed {
            names[count] = CONTROLLERS[index].name;
            count += 1;
        }
        index += 1;
    }
    names
};

fn chosen_controller(values: &Values) -> &'static Controller {
    chosen(const { &CONTROLLERS }, values, "cc")
}

/// Whether what `values` describe sends less when packets are lost or delayed, so that a stranger may choose
/// it.
pub(super) fn obeys(values: &Values) -> bool {
    let windows = [values.integer("iw"), values.integer("wmin")];
    chosen_controller(values).obeys && windows.into_iter().all(|packets| packets <= OBEYING_PACKETS_MAX)
}

pub(super) fn congestion(values: &Values) -> Make<dyn CongestionController> {
    let inner = (chosen_controller(values).make)(values);
    let (is_masked, window_bytes) = (values.flag("masked"), values.integer("rwnd"));
    if !is_masked && window_bytes == 0 {
        return inner;
    }
    let by_duplicate_acks = is_asked_by_tcp(values);
    Arc::new(move |context| {
        let mut controller = inner(context);
        if is_masked {
            controller = Box::new(if by_duplicate_acks {
                control::AboveCode::by_duplicate_acks(controller)
            } else {
                control::AboveCode::new(controller)
            });
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

/// Sato's chapters 3 and 4 have groups without interleaving, and no notice of what was repaired.
fn tcp_fec(values: &Values) -> Make<dyn CongestionController> {
    let (window, reduction) = (window(values), values.number("r"));
    let is_notified = reduction < 1.0 || values.word("group") == "interleaved";
    Arc::new(move |context| {
        let mtu_bytes = context.mtu_bytes;
        Box::new(match is_notified {
            true => control::TcpFec::new(mtu_bytes, window, reduction),
            false => control::TcpFec::unnotified(mtu_bytes, window),
        })
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
