//! How single values of config.toml are written, and what they are if they are not.

use std::net::SocketAddr;
#[cfg(machine)]
use std::num::NonZeroU16;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::near::forward::parse_port;
use super::near::login::Login;
#[cfg(machine)]
use super::wire::packets::Delivery;
use super::wire::target::Place;
use crate::listen::{Listen, Ports, parse_listen_all};
#[cfg(machine)]
use crate::packets::near;
use crate::profile_names::parse_profile;
use crate::reach;
#[cfg(machine)]
use crate::transparent::rules;
use crate::units;

pub(super) fn listen_default() -> Listen {
    reach::any_address(reach::DEFAULT_PORT).into()
}

pub(super) fn proxy_default() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 1080))
}

#[cfg(machine)]
pub(super) fn delivery_default() -> Delivery {
    Delivery::AnyOrder
}

#[cfg(machine)]
pub(super) fn mtu_default() -> u16 {
    near::MTU
}

#[cfg(machine)]
pub(super) fn transparent_default() -> NonZeroU16 {
    const { NonZeroU16::new(rules::PORT).unwrap() }
}

#[cfg(machine)]
pub(super) fn user<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    checked(deserializer, rules::parse_user).map(Some)
}

#[cfg(machine)]
pub(super) fn device_default() -> String {
    near::DEVICE.into()
}

fn checked<'de, D: Deserializer<'de>, T, E: std::fmt::Display>(
    deserializer: D,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).map_err(serde::de::Error::custom)
}

fn listed<'de, D: Deserializer<'de>, T, E: std::fmt::Display>(
    deserializer: D,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Vec<T>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.iter().map(|text| parse(text).map_err(serde::de::Error::custom)).collect()
}

pub(super) fn parsed_list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr,
    T::Err: std::fmt::Display,
{
    listed(deserializer, T::from_str)
}

pub(super) fn places<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Place>, D::Error> {
    listed(deserializer, parse_port)
}

pub(super) fn listen<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Listen, D::Error> {
    checked(deserializer, parse_listen_all)
}

/// As `--deadline`.
pub(super) fn deadline<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    checked(deserializer, units::parse_deadline).map(Some)
}

/// As `--hop`.
pub(super) fn hop<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    checked(deserializer, reach::parse_hop).map(Some)
}

/// As `--other-ports`.
pub(super) fn ports<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Ports>, D::Error> {
    checked(deserializer, str::parse).map(Some)
}

/// A size such as 512M.
pub(super) fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    checked(deserializer, units::parse_size).map(Some)
}

/// A rate such as 10M.
pub(super) fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    checked(deserializer, units::parse_rate).map(Some)
}

pub(super) fn profile<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    checked(deserializer, parse_profile).map(Some)
}

/// A network for tunnels, as it is written: where it is used, it is a pool of addresses that are taken.
#[cfg(machine)]
pub(super) fn network<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let same = |text: &str| text.parse::<crate::packets::pool::Pool>().map(|_| text.to_owned());
    checked(deserializer, same).map(Some)
}

#[cfg(not(machine))]
pub(super) fn network<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    checked(deserializer, |_| Err("tunnels for packets need Linux")).map(Some)
}

#[cfg(machine)]
pub(super) fn device<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    checked(deserializer, near::parse_device)
}

#[cfg(machine)]
pub(super) fn mtu<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    let bytes = u16::deserialize(deserializer)?;
    near::parse_mtu(&bytes.to_string()).map_err(serde::de::Error::custom)
}

pub(super) fn login<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Login>, D::Error> {
    checked(deserializer, Login::parse).map(Some)
}
