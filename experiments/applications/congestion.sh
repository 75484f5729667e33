# `congestion NAME` has the kernel's TCP use this congestion control on every route of the network namespace there is now. By route: the
# default of a namespace may be one of the machine's allowed ones only. Sourced at both ends.
congestion() {
  ip -4 route show table all | grep -v -e ^broadcast -e ' congctl ' | while read -r route; do
    # The words of a route are words of the command that makes it.
    ip route replace $route congctl "$1"
  done
}
