import react from '@vitejs/plugin-react';
import { defineConfig } from 'vitest/config';

const server = process.env.FIRN_SERVER ?? 'http://127.0.0.1:8630';

export default defineConfig({
  plugins: [react()],
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
