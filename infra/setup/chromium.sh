#!/usr/bin/env bash
# Installs Chromium for the page tests where that is possible without a question; without it those tests are skipped (failed in CI).
set -u
command -v chromium >/dev/null 2>&1 && exit 0
as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo -n"
if command -v apt-get >/dev/null 2>&1 && { [ -z "$as_root" ] || sudo -n true 2>/dev/null; }; then
    $as_root apt-get install -y -qq chromium fonts-dejavu-core >/dev/null 2>&1 \
        || { $as_root apt-get update -qq && $as_root apt-get install -y -qq chromium fonts-dejavu-core; } >/dev/null 2>&1
fi
command -v chromium >/dev/null 2>&1 || echo "chromium is missing: page tests will be skipped" >&2
exit 0
