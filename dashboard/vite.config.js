import { defineConfig } from "vite";

// The built page lies in dist/, from where the Rust build embeds it. `npm run dev` serves the sources and asks the
// controller named in CONTROLLER (or the mock of test/mock) for everything below /api.
export default defineConfig({
  base: "./",
  build: { target: "es2022", assetsInlineLimit: 0, chunkSizeWarningLimit: 300 },
  server: {
    proxy: { "/api": { target: process.env.CONTROLLER ?? "http://127.0.0.1:4700", ws: true } },
  },
});
