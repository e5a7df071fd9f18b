FROM node:24.21.0-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY scripts scripts
COPY src src
COPY workflows workflows
COPY activities activities
RUN npm run build && npm prune --omit=dev --ignore-scripts --no-audit --no-fund \
  # The workflows are bundled: no worker compiles. Temporal's packages load webpack all the same, but not these.
  && rm -rf node_modules/@swc node_modules/swc-loader

FROM node:24.21.0-bookworm-slim
ENV NODE_ENV=production TZ=UTC
WORKDIR /app
COPY --from=build /app/package.json ./
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY deploy/templates deploy/templates
COPY deploy/replication-runbooks-worker.service deploy/
# Volumes mounted here inherit the owner.
RUN ln -s /app/dist/src/cli/main.js /usr/local/bin/runbook && chmod +x dist/src/cli/main.js \
  && install -d -o node -g node -m 0700 /run/laboratory /run/simulator /var/lib/runbooks
USER node
ENTRYPOINT ["runbook"]
CMD ["--help"]
