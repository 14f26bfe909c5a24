import { readFileSync } from 'node:fs';

import react from '@vitejs/plugin-react';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';

const server = process.env.FIRN_SERVER ?? 'http://127.0.0.1:8630';

/** What an operator imports into Grafana and Prometheus, so that it comes with the server, and the settings page links it. */
const MONITORING = { 'monitoring/firn-grafana.json': '../deploy/grafana/firn.json', 'monitoring/firn.rules.yml': '../deploy/prometheus/firn.rules.yml' };

const monitoring: Plugin = {
  name: 'monitoring',
  apply: 'build',
  generateBundle() {
    for (const [fileName, path] of Object.entries(MONITORING)) {
      this.emitFile({ type: 'asset', fileName, source: readFileSync(new URL(path, import.meta.url)) });
    }
  },
};

export default defineConfig({
  plugins: [react(), monitoring],
  server: {
    host: '127.0.0.1',
    // Host and Origin stay those of the page: the server refuses pages of other addresses.
    proxy: Object.fromEntries(['/api', '/iceberg', '/healthz'].map((path) => [path, { target: server, changeOrigin: false }])),
  },
  build: {
    target: 'es2022',
    // Everything but index.html is named by its content: the server lets browsers keep it for ever.
    assetsDir: 'assets',
    chunkSizeWarningLimit: 1600,
    rollupOptions: {
      input: { index: 'index.html', docs: 'docs.html' },
      output: {
        manualChunks: (id) => (/node_modules\/(@mantine|react|react-dom|@tanstack)\//.test(id) ? 'vendor' : undefined),
      },
    },
  },
  test: { environment: 'node', include: ['src/**/*.test.ts'] },
});
