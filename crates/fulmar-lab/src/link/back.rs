//! What the way back has of its own. What is not said is as on the way forward (its faults only if they
//! strike both ways).

use std::time::Duration;

use clap::Args;
use fulmar_net::{LinkConfig, LinkRate, Loss, Policer, Probability, QueueConfig, parse};

use super::words::{self, jitter, to};

/// From the receiver to the sender, where that differs.
#[derive(Args, Clone, Debug, PartialEq, Eq, Default)]
#[command(next_help_heading = "Way back, where it differs")]
pub struct Back {
    /// Rate
    #[arg(long, value_name = "RATE", value_parser = words::rate)]
    pub back_rate: Option<LinkRate>,
    /// Queue
    #[arg(long, value_name = "QUEUE", value_parser = parse::model::queue)]
    pub back_queue: Option<QueueConfig>,
    /// Loss
    #[arg(long, value_name = "LOSS", value_parser = words::loss)]
    pub back_loss: Option<Loss>,
    /// Mean length of a loss burst in packets
    #[arg(long, value_name = "E", value_parser = parse::milli)]
    pub back_burst: Option<u32>,
    /// Probability of a congestion mark
    #[arg(long, value_name = "M", value_parser = parse::probability)]
    pub back_mark: Option<Probability>,
    /// Extra delay, uniform from zero to this
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    pub back_jitter: Option<Duration>,
    /// What comes faster is dropped
    #[arg(long, value_name = "RATE/BURST", value_parser = parse::model::policer)]
    pub back_policer: Option<Policer>,
}

impl Back {
    /// Sets one value by its name in an experiment file.
    pub(super) fn set(&mut self, key: &str, text: &str) -> Result<(), String> {
        match key {
            "back_rate" => to(&mut self.back_rate, words::rate(text).map(Some)),
            "back_queue" => to(&mut self.back_queue, parse::model::queue(text).map(Some)),
            "back_loss" => to(&mut self.back_loss, words::loss(text).map(Some)),
            "back_burst" if text == "none" => to(&mut self.back_burst, Ok::<_, String>(None)),
            "back_burst" => to(&mut self.back_burst, parse::milli(text).map(Some)),
            "back_mark" => to(&mut self.back_mark, parse::probability(text).map(Some)),
            "back_jitter" => to(&mut self.back_jitter, parse::duration(text).map(Some)),
            "back_policer" => to(&mut self.back_policer, parse::model::policer(text).map(Some)),
            _ => Err(format!("the way back has no '{key}'")),
        }
    }

    /// Changes what differs.
    pub(super) fn apply(&self, link: &mut LinkConfig, rtt: Duration) -> Result<(), String> {
        match (&self.back_loss, self.back_burst) {
            (Some(loss), burst) => link.loss = words::with_bursts(loss, burst)?,
            (None, Some(_)) => return Err("back_burst goes with back_loss".into()),
            (None, None) => {}
        }
        if let Some(rate) = &self.back_rate {
            link.rate = rate.clone();
        }
        if let Some(queue) = &self.back_queue {
            link.queue = words::of_rtt(queue.clone(), rtt);
        }
        if let Some(longest) = self.back_jitter {
            link.jitter = jitter(longest);
        }
        link.mark = self.back_mark.unwrap_or(link.mark);
        link.policer = self.back_policer.or(link.policer);
        Ok(())
    }
}
