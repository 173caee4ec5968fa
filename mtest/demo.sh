#!/usr/bin/env bash
# The main job on one machine: three real nodes, a cke daemon with its embedded store, one etcd cluster.
#   demo.sh up      builds and starts all of it, and shows what an operator would do
#   demo.sh gameday starts it unless it runs, and breaks it under load; further arguments are those of cke-lab gameday
#   demo.sh down    removes all of it
# Another name of the lab (CKE_DEMO_NAME) and address of the daemon (CKE_DEMO_LISTEN) let a demo run beside another one.
set -euo pipefail
cd "$(dirname "$0")/.."
here=$PWD
demo=$here/.demo
name=${CKE_DEMO_NAME:-cke-demo}
listen=${CKE_DEMO_LISTEN:-127.0.0.1:10180}
lab=(bin/cke-lab --dir "$demo/lab" --name "$name")
etcd=3.6.16

say() { printf '\n\033[1m== %s\033[0m\n' "$*" >&2; }
run() { printf '\033[2m$ %s\033[0m\n' "$*" >&2; "$@"; }
if [ ! -t 2 ] || [ -n "${NO_COLOR:-}" ]; then
  say() { printf '\n== %s\n' "$*" >&2; }
  run() { printf '$ %s\n' "$*" >&2; "$@"; }
fi

stop_daemon() {
  if [ -f "$demo/cke.pid" ]; then
    kill "$(cat "$demo/cke.pid")" 2>/dev/null || true
    for _ in $(seq 100); do
      kill -0 "$(cat "$demo/cke.pid")" 2>/dev/null || break
      sleep 0.1
    done
    rm -f "$demo/cke.pid"
  fi
}

up() {
  mtest/need.sh
  mkdir -p "$demo/images" "$demo/bin"
  say "Build cke, ckecli, cke-probe and cke-lab (the first time takes some minutes)"
  make --no-print-directory build
  ln -sf "$here"/bin/{cke,ckecli,cke-probe,cke-lab} "$demo/bin/"

  say "An etcd $etcd image and etcdctl"
  bin/cke-lab etcd-image "$etcd" --out "$demo/images/etcd-$etcd.tar" --binaries "$demo/bin" >/dev/null

  say "Three nodes: containers with their own sshd and Docker engine"
  run "${lab[@]}" up --nodes 3
  "${lab[@]}" list

  say "The cke daemon with its embedded store"
  cat > "$demo/config.yml" <<EOF
store:
  embedded: {data_dir: $demo/store}
secret_key_file: $demo/secret.key
http: {listen: $listen}
images: {archive_dir: $demo/images}
EOF
  if [ -f "$demo/cke.pid" ] && kill -0 "$(cat "$demo/cke.pid")" 2>/dev/null; then
    echo "It runs already" >&2
  else
    nohup bin/cke --config "$demo/config.yml" >>"$demo/cke.log" 2>&1 </dev/null &
    echo $! > "$demo/cke.pid"
    for _ in $(seq 100); do
      [ -S "$demo/store/store.sock" ] || bin/ckecli --config "$demo/config.yml" cluster list >/dev/null 2>&1 && break
      kill -0 "$(cat "$demo/cke.pid")" 2>/dev/null || { tail -5 "$demo/cke.log" >&2; exit 1; }
      sleep 0.05
    done
  fi

  export CKECLI_CONFIG=$demo/config.yml PATH=$demo/bin:$PATH
  [ -f "$demo/cluster.yml" ] || "${lab[@]}" spec --cluster demo --etcd "$etcd" > "$demo/cluster.yml"
  say "The cluster file"
  cat "$demo/cluster.yml"
  say "Declare it, and follow the bootstrap"
  run ckecli ssh-key set "$("${lab[@]}" list -o json | sed -n 's/.*"keyFile": *"\([^"]*\)".*/\1/p' | head -1)"
  run ckecli cluster set "$demo/cluster.yml"

  say "A client certificate, and what etcdctl needs"
  ckecli etcd env --dir "$demo/etcd-client" > "$demo/etcdctl.env"
  { echo "export PATH=$demo/bin:\$PATH"
    echo "export CKECLI_CONFIG=$demo/config.yml"
    cat "$demo/etcdctl.env"
  } > "$demo/env"
  # shellcheck disable=SC1091
  source "$demo/env"
  run etcdctl put hello world
  run etcdctl get hello
  say "The cluster"
  run ckecli status
  say "What was done"
  run ckecli history
  cat >&2 <<EOF

To continue manually:
  source .demo/env
  ckecli status
  etcdctl get hello
  etcdctl endpoint status -w table
  cke-lab --dir .demo/lab --name $name kill $name-n2     # and: ckecli status --watch
  make gameday                                                 # random faults under load, with a verdict
The cluster file is .demo/cluster.yml, the daemon's log .demo/cke.log; \`make demo-down\` removes all of it.

The status page: http://$listen/
EOF
}

gameday() {
  if [ -f "$demo/cke.pid" ] && kill -0 "$(cat "$demo/cke.pid")" 2>/dev/null; then
    make --no-print-directory build
  else
    up
  fi
  say "A game day"
  run bin/cke-lab gameday --name "$name" "$@"
}

down() {
  stop_daemon
  if [ -x bin/cke-lab ] || make --no-print-directory build; then
    "${lab[@]}" down || true
  fi
  rm -rf "$demo"
  echo "The demo is gone." >&2
}

case "${1:-}" in
  up) up ;;
  gameday) shift; gameday "$@" ;;
  down) down ;;
  *) echo "usage: $0 up|gameday|down" >&2; exit 64 ;;
esac
