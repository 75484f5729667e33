# Homebrew on Linux, from the static programs of scripts/dist (scripts/manifests has filled in version and sums).
class Fulmar < Formula
  desc "@SUMMARY@"
  homepage "@URL@"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on :linux

  on_intel do
    url "@RELEASES@/fulmar-@VERSION@-x86_64-unknown-linux-musl.tar.gz"
    sha256 "@SHA256:x86_64-unknown-linux-musl@"
  end
?aarch64-unknown-linux-musl   on_arm do
?aarch64-unknown-linux-musl     url "@RELEASES@/fulmar-@VERSION@-aarch64-unknown-linux-musl.tar.gz"
?aarch64-unknown-linux-musl     sha256 "@SHA256:aarch64-unknown-linux-musl@"
?aarch64-unknown-linux-musl   end

  def install
    bin.install "fulmar"
    doc.install "README.md", "CHANGELOG.md", "docs"
    system bin/"fulmar", "manual", "--into", man1
    generate_completions_from_executable(bin/"fulmar", "completions")
  end

  test do
    ENV["FULMAR_HOME"] = testpath
    system bin/"fulmar", "keygen"
    assert_match version.to_s, shell_output("#{bin}/fulmar --version")
  end
end
