//! Pictures for the demonstration: those that people give, and one that the program draws.
//!
//! The drawn one is a JPEG that comes from the top, so that everybody sees what is missing. A progressive one
//! looks finished when half of it is there.

use imagesize::ImageType;
use jpeg_encoder::{ColorType, Encoder};
use serde::Serialize;

use super::types::Refusal;

/// Id of the drawn picture.
pub(crate) const DRAWN: &str = "drawn";
/// Pictures that are kept.
pub(crate) const KEPT_MAX: usize = 16;
/// Bytes of a picture.
pub(crate) const BYTES_MAX: usize = 32 << 20;

const WIDTH: u16 = 1920;
const HEIGHT: u16 = 1280;
const QUALITY: u8 = 95;

/// What a page is told of a picture.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Image {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) content_type: &'static str,
    pub(crate) bytes: usize,
    width: Option<usize>,
    height: Option<usize>,
    progressive: bool,
}

/// A picture.
#[derive(Clone, Debug)]
pub(crate) struct Picture {
    pub(crate) image: Image,
    pub(crate) bytes: Vec<u8>,
}

impl Picture {
    /// From a file, if it is of a kind that browsers show in parts.
    pub(crate) fn read(id: String, name: &str, bytes: Vec<u8>) -> Result<Self, Refusal> {
        let content_type = match imagesize::image_type(&bytes) {
            Ok(ImageType::Png) => "image/png",
            Ok(ImageType::Jpeg) => "image/jpeg",
            Ok(ImageType::Gif) => "image/gif",
            Ok(ImageType::Webp) => "image/webp",
            _ => return Err(Refusal::new(415, "this is no PNG, JPEG, GIF or WebP picture")),
        };
        let size = imagesize::blob_size(&bytes).ok();
        let name = name.chars().filter(|c| !c.is_control()).take(100).collect();
        let progressive = is_progressive(content_type, &bytes);
        let (width, height) = (size.map(|size| size.width), size.map(|size| size.height));
        let image = Image { id, name, content_type, bytes: bytes.len(), width, height, progressive };
        Ok(Self { image, bytes })
    }
}

/// Whether a part of it shows the whole.
fn is_progressive(content_type: &str, bytes: &[u8]) -> bool {
    match content_type {
        // PNG (RFC 2083, 4.1.1): the last byte of the header. GIF: a bit of the first picture's descriptor,
        // which is not looked for.
        "image/png" => bytes.get(28) == Some(&1),
        "image/jpeg" => jpeg_frame(bytes) == Some(0xc2),
        _ => false,
    }
}

/// The marker of the first frame of a JPEG (ITU-T T.81, B.1.1.3): 0xc2 is a progressive one.
fn jpeg_frame(bytes: &[u8]) -> Option<u8> {
    let mut at = 2;
    loop {
        let marker = *bytes.get(at + 1)?;
        if matches!(marker, 0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf) {
            return Some(marker);
        }
        at += 2 + usize::from(u16::from_be_bytes([*bytes.get(at + 2)?, *bytes.get(at + 3)?]));
    }
}

/// A bird over the sea.
pub(crate) fn drawn() -> Picture {
    let (width, height) = (usize::from(WIDTH), usize::from(HEIGHT));
    let mut pixels = Vec::with_capacity(width * height * 3);
    let mut noise = fulmar_net::Rng::new(1, 1);
    for row in 0..height {
        for column in 0..width {
            let grain = (noise.draw() % 1000) as f64 / 1000.0 - 0.5;
            let x = column as f64 / width as f64;
            pixels.extend(colour(x, row as f64 / height as f64, grain).map(|c| c.clamp(0.0, 255.0) as u8));
        }
    }
    let mut bytes = Vec::new();
    let encoder = Encoder::new(&mut bytes, QUALITY);
    // Fails for sizes that do not match or writers that do, neither of which is here.
    let _ = encoder.encode(&pixels, WIDTH, HEIGHT, ColorType::Rgb);
    let image = Image {
        id: DRAWN.into(),
        name: "a bird over the sea".into(),
        content_type: "image/jpeg",
        bytes: bytes.len(),
        width: Some(width),
        height: Some(height),
        progressive: false,
    };
    Picture { image, bytes }
}

/// The colour at a place, from 0 to 1 each way.
fn colour(x: f64, y: f64, grain: f64) -> [f64; 3] {
    if is_bird(x, y) {
        return [28.0, 34.0, 44.0].map(|c| c + 14.0 * grain);
    }
    let horizon = 0.62;
    if y < horizon {
        let depth = y / horizon;
        let from_sun = ((x - 0.72).powi(2) * 2.2 + (y - 0.40).powi(2)).sqrt();
        let glow = (-from_sun * 7.0).exp() * 150.0 + if from_sun < 0.055 { 120.0 } else { 0.0 };
        let cloud = (x * 23.0 + (y * 40.0).sin()).sin() * (y * 61.0 + (x * 9.0).sin() * 2.0).sin();
        let veil = cloud.max(0.0) * 26.0 * depth;
        let base = [58.0 + 150.0 * depth, 96.0 + 92.0 * depth, 150.0 + 20.0 * depth];
        return [base[0] + glow + veil, base[1] + glow * 0.75 + veil, base[2] + glow * 0.35 + veil]
            .map(|c| c + 22.0 * grain);
    }
    let depth = (y - horizon) / (1.0 - horizon);
    let near = 1.0 / (0.05 + depth);
    let wave = (near * 14.0 + (x * 38.0 / (0.3 + depth)).sin() * 1.3).sin()
        + 0.6 * (x * 170.0 / (0.2 + depth) + near * 21.0).sin();
    let glitter = (-((x - 0.72) * (5.0 - 3.0 * depth)).powi(2)).exp() * wave.max(0.0) * 95.0;
    let base = [22.0 + 34.0 * (1.0 - depth), 62.0 + 42.0 * (1.0 - depth), 88.0 + 40.0 * (1.0 - depth)];
    [base[0] + glitter, base[1] + glitter * 0.8 + 11.0 * wave, base[2] + glitter * 0.4 + 13.0 * wave]
        .map(|c| c + 60.0 * grain)
}

/// Stiff wings, a short body.
fn is_bird(x: f64, y: f64) -> bool {
    let (dx, dy) = ((x - 0.36) / 0.20, (y - 0.30) / 0.13);
    let wing = -0.35 * (1.0 - (dx.abs() * 1.6 - 0.75).powi(2)) + 0.12 * dx;
    let thickness = 0.105 * (1.0 - dx.abs()).max(0.0).sqrt();
    let is_wing = dx.abs() < 1.0 && (dy - wing).abs() < thickness;
    let body = ((dx - 0.02) / 0.26).powi(2) + ((dy + 0.10 - 0.25 * dx) / 0.17).powi(2);
    is_wing || body < 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drawn_picture_comes_from_the_top() {
        let drawn = drawn();
        let again = Picture::read("x".into(), "a\nname", drawn.bytes.clone()).unwrap();
        assert!(!again.image.progressive && !drawn.image.progressive);
        assert_eq!((again.image.width, again.image.height), (drawn.image.width, drawn.image.height));
        assert_eq!(again.image.name, "aname");
        assert!((700_000..3_000_000).contains(&drawn.bytes.len()), "{}", drawn.bytes.len());
    }

    #[test]
    fn what_is_no_picture_is_refused_and_what_is_cut_short_harms_nobody() {
        assert_eq!(Picture::read("x".into(), "", b"<svg/>".to_vec()).unwrap_err().status, 415);
        let bytes = drawn().bytes;
        for length in (0..600).chain([bytes.len() / 2]) {
            // Whatever comes of it.
            let _ = Picture::read("x".into(), "", bytes[..length].to_vec());
        }
        assert_eq!(jpeg_frame(&[0xff, 0xd8, 0xff, 0xe0, 0, 0]), None);
    }
}
