//! Links in words.

mod common;

use common::*;
use fulmar_net::parse::model::{intervals, loss, loss_pattern, policer, queue, stalls};
use fulmar_net::parse::trace::{mahimahi_loss, mahimahi_trace, rate_trace};
use fulmar_net::*;
use fulmar_units::Rate;
use proptest::prelude::*;

#[test]
fn queues() {
    let packets = QueueLimit::Packets;
    assert_eq!(queue("2bdp"), Ok(QueueConfig::DropTail(QueueLimit::Bdp { milli: 2000, rtt: None })));
    assert_eq!(queue("droptail:100p"), Ok(QueueConfig::DropTail(packets(100))));
    assert_eq!(queue("drr:50p"), Ok(QueueConfig::Drr(DrrConfig { limit: packets(50), quantum_bytes: 1500 })));
    assert_eq!(queue("sfq").map(|q| q.limit()), Ok(QueueLimit::ONE_BDP));
    for (text, name) in [
        ("red:90p", "Red"),
        ("codel:90p", "Codel"),
        ("fq_codel:90p", "FqCodel"),
        ("wfq:90p", "Wfq"),
        ("priority:90p", "Prio"),
    ] {
        let queue = queue(text).expect(text);
        assert!(format!("{queue:?}").starts_with(name));
        assert_eq!(queue.limit(), packets(90));
    }
    assert!(queue("pie").is_err());
    assert!(queue("red:x").is_err());
}

#[test]
fn losses() {
    let percent = Probability::from_percent;
    assert_eq!(loss("none"), Ok(Loss::None));
    assert_eq!(loss("0%"), Ok(Loss::None));
    assert_eq!(loss("5%"), Ok(Loss::Bernoulli(percent(5))));
    assert_eq!(loss("5%/10"), Ok(Loss::TwoState(TwoState::new(percent(5), 10_000).expect("possible"))));
    let oven = Periodic { period: ms(20), on: ms(10), offset: ms(0), loss: percent(80) };
    assert_eq!(loss("periodic:20ms/10ms/80%"), Ok(Loss::Periodic(oven)));
    let hidden = PoissonBursts { interval_mean: ms(100), length: ms(5), loss: Probability::ONE };
    assert_eq!(loss("bursts:100ms/5ms"), Ok(Loss::PoissonBursts(hidden)));
    assert_eq!(loss("pattern:01"), Ok(Loss::Pattern(LossPattern::new(vec![false, true]))));
    for text in [
        "",
        "0.05",
        "60%/1",
        "5%/0.5",
        "5%/2/3",
        "periodic:20ms",
        "bursts:0s/1ms",
        "pattern:",
        "pattern:2",
        "odd:1",
    ] {
        assert!(loss(text).is_err(), "{text}");
    }
    let message = loss("60%/1").unwrap_err().to_string();
    assert!(message.contains("p at most E / (E + 1)"), "{message}");
}

#[test]
fn traces_and_intervals() {
    let trace = rate_trace("# journey\n0s 20M\n12.5s\t800k # slow\n\n15s 0\n20s repeat\n").expect("a trace");
    for (millis, expected) in
        [(0, 20_000_000), (12_499, 20_000_000), (12_500, 800_000), (15_000, 0), (20_000, 20_000_000)]
    {
        assert_eq!(trace.at(at(ms(millis))), Rate::from_bits_per_second(expected), "{millis} ms");
    }
    for text in ["", "0s", "1s 5M", "0s 5M\n0s 6M", "0s 5M\n3s repeat\n4s 1M", "0s 5M\n0s repeat", "0s fast"]
    {
        assert!(rate_trace(text).is_err(), "{text}");
    }
    assert_eq!(loss_pattern("01 # x\n1\n"), Ok(LossPattern::new(vec![false, true, true])));
    let blackouts = intervals("10s-12s, 1s-1.5s").expect("two");
    let seconds = |s: u64| at(ms(1000 * s));
    assert_eq!(blackouts.as_slice(), [(seconds(1), at(ms(1500))), (seconds(10), seconds(12))]);
    assert!(intervals("2s-1s").is_err() && intervals("5s").is_err());
    assert_eq!(intervals(""), Ok(Intervals::none()));
}

#[test]
fn mahimahi_traces_keep_the_bytes() {
    // 10 packets in the first 100 ms, 1 in the next, none until 250.
    let text = "5\n10\n20\n30\n40\n50\n60\n70\n80\n100\n150\n250\n";
    let trace = mahimahi_trace(text, ms(100)).expect("a trace");
    let rates: Vec<u64> = [0, 100, 200, 250].map(|t| trace.at(at(ms(t))).bytes_per_second()).into();
    assert_eq!(rates, [150_000, 15_000, 30_000, 150_000]);
    assert!(mahimahi_trace("", ms(100)).is_err());
    assert!(mahimahi_trace("5\n4\n", ms(100)).is_err());
    assert!(mahimahi_trace("x", ms(100)).is_err());
    assert!(mahimahi_trace("0", ms(100)).is_err());
    assert!(mahimahi_trace("18446744073709551615", ms(1)).is_err());
}

proptest! {
    /// Nothing a person can write makes a parser panic.
    #[test]
    fn any_text_is_answered(text in "[0-9a-zA-Z.:%/,# \n-]{0,40}|.{0,20}") {
        let _ = (parse::rate(&text), parse::duration(&text), parse::probability(&text), parse::bytes(&text));
        let _ = (parse::milli(&text), queue(&text), loss(&text), intervals(&text), rate_trace(&text));
        let _ = (mahimahi_trace(&text, ms(1)), parse::link_rate(&text));
    }

    #[test]
    fn what_is_written_is_read(whole in 0u64..1_000_000, thousandths in 0u64..1000) {
        let number = format!("{whole}.{thousandths:03}");
        let exact = whole * 1000 + thousandths;
        prop_assert_eq!(parse::rate(&format!("{number}M")), Ok(Rate::from_bits_per_second(exact * 1000)));
        prop_assert_eq!(parse::duration(&format!("{number}us")), Ok(std::time::Duration::from_nanos(exact)));
        prop_assert_eq!(parse::bytes(&format!("{number}kB")), Ok(exact));
        prop_assert_eq!(parse::milli(&number), Ok(exact as u32));
    }
}

#[test]
fn steps_stalls_policers_and_loss_traces() {
    let LinkRate::Trace(steps) = parse::link_rate("100M,5s:10M, 10s:0,12s:repeat").expect("steps") else {
        panic!()
    };
    for (seconds, mbps) in [(4, 100), (5, 10), (10, 0), (12, 100), (17, 10)] {
        assert_eq!(steps.at(at(ms(seconds * 1000))), mbit(mbps), "{seconds} s");
    }
    for text in
        ["100M,", "100M,10M", "100M,5s:10M,4s:1M", "100M,0s:1M", "100M,5s:repeat,6s:1M", "100M,5s:fast"]
    {
        assert!(parse::link_rate(text).is_err(), "{text}");
    }
    let random = Stalls::Random { interval_mean: ms(500), shortest: ms(1), longest: ms(100) };
    assert_eq!(stalls("500ms/1ms-100ms"), Ok(random));
    assert_eq!(stalls("5s-5.5s"), intervals("5s-5.5s").map(Stalls::At));
    assert_eq!(stalls(""), Ok(Stalls::None));
    assert!(stalls("0/1ms").is_err() && stalls("1s/2ms-1ms").is_err() && stalls("often").is_err());
    assert_eq!(policer("20M/64kB"), Ok(Policer { rate: mbit(20), burst_bytes: 64_000 }));
    assert!(policer("20M").is_err() && policer("20M/1400").is_err());
    let trace = mahimahi_loss("# a hand-over\n3\n4\n9\n20\n").expect("a trace");
    let lost: Vec<u64> = (0..20).filter(|&t| trace.lost.contains(at(ms(t)))).collect();
    assert_eq!((lost, trace.period), (vec![3, 4, 9], ms(20)));
    for text in ["", "0", "5\n4", "x", "18446744073709551615"] {
        assert!(mahimahi_loss(text).is_err(), "{text}");
    }
}
