//! What is known of the loss on a path.

/// What an estimator says of the path.
#[derive(Copy, Clone, Debug, PartialEq, Default)]
pub struct LossView {
    /// Packet loss rate p, 0 to 1: raw loss on the wire, repaired or not.
    pub rate: f64,
    /// Mean length E of a loss burst in packets, at least 1 once there was one, 0 before.
    pub burst_packets: f64,
    /// Packets the estimate rests on, discounted as the estimator forgets: few packets, little confidence.
    pub weight_packets: f64,
}
