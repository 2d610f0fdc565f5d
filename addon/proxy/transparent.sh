# Makes the network of `addon/proxy/transparent.py`, holds it, and leaves nothing behind.
#
# Runs in the inner network namespace, with a mount namespace of its own. $OUTER is a process in the
# outer one. When all is made it prints its own process and, where there is IPv6, the proxy's
# address there; then it waits until its standard input ends, and kills what still runs inside.
set -eu

outer() {
    nsenter --net="/proc/$OUTER/ns/net" -- "$@"
}

# A pair of interfaces joins both namespaces, and every address lies behind it.
ip link set lo up
ip link add eth0 type veth peer name agent netns "$OUTER"
ip address add "$INNER_ADDRESS/29" dev eth0
outer ip address add "$OUTER_ADDRESS/29" dev agent
ip link set eth0 up
outer ip link set agent up
ip route add default via "$OUTER_ADDRESS"
outer sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'
ipv6=
if [ -n "$(outer ip -6 route show default)" ]; then
    ipv6="${PREFIX}1"
    ip -6 address add "${PREFIX}2/64" dev eth0 nodad
    outer ip -6 address add "$ipv6/64" dev agent nodad
    ip -6 route add default via "$ipv6"
    outer sh -c 'echo 1 > /proc/sys/net/ipv6/conf/all/forwarding'
fi

# The proxy's own port, and those that the user has named, are reached on the command's loopback as
# on the machine's: they go through the pair, and on the other side to loopback again.
echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet
outer sh -c 'echo 1 > /proc/sys/net/ipv4/conf/agent/route_localnet'
nft -f - <<END
table inet obsmask {
    chain output {
        type nat hook output priority -100
        ip daddr 127.0.0.1 tcp dport { $LOOPBACK_PORTS } dnat ip to $OUTER_ADDRESS
    }
    chain postrouting {
        type nat hook postrouting priority 100
        ip saddr 127.0.0.0/8 oifname "eth0" masquerade
    }
}
END

# What comes for the ports of HTTP and HTTPS is led to the proxy, whatever the address. QUIC is
# refused, so that clients take TCP. The rest is counted, each connection once, by a mark on it;
# questions to a name server are not. What goes to loopback comes from loopback: pasta and the proxy
# take nothing else there.
outer nft -f - <<END
table inet obsmask {
    counter past_tcp {}
    counter past_udp {}
    counter refused_quic {}
    chain prerouting {
        type nat hook prerouting priority -100
        iifname "agent" ip daddr $OUTER_ADDRESS tcp dport { $LOOPBACK_PORTS } dnat ip to 127.0.0.1
        iifname "agent" meta nfproto ipv4 tcp dport { $PORTS } dnat ip to $OUTER_ADDRESS:$PROXY_PORT
        iifname "agent" meta nfproto ipv6 tcp dport { $PORTS } dnat ip6 to [${PREFIX}1]:$PROXY_PORT
    }
    chain own {
        type nat hook input priority 100
        iifname "agent" ip daddr 127.0.0.1 snat ip to 127.0.0.1
    }
    chain input {
        type filter hook input priority 0
        iifname "agent" ct status dnat accept
        iifname "agent" meta l4proto { icmp, ipv6-icmp } accept
        iifname "agent" reject
    }
    chain forward {
        type filter hook forward priority 0
        iifname "agent" udp dport { $PORTS } counter name refused_quic reject
        iifname "agent" meta l4proto { tcp, udp } th dport 53 accept
        iifname "agent" ct mark 0 meta l4proto tcp ct mark set 1 counter name past_tcp
        iifname "agent" ct mark 0 meta l4proto udp ct mark set 1 counter name past_udp
    }
    chain postrouting {
        type nat hook postrouting priority 100
        iifname "agent" oifname != { "lo", "agent" } masquerade
    }
}
END

# Files over those of the system, for the processes in here alone. They are in memory.
mount -t tmpfs tmpfs "$SCRATCH"
if [ -f /etc/resolv.conf ]; then
    { grep -v '^[[:space:]]*nameserver' /etc/resolv.conf || :; echo "nameserver $RESOLVER"; } \
        > "$SCRATCH/resolv.conf"
    mount --bind "$SCRATCH/resolv.conf" "$(readlink -f /etc/resolv.conf)"
fi
# OpenSSL finds an authority by the hash of its name, in a folder...
for folder in /etc/ssl/certs /etc/pki/tls/certs; do
    if ls "$folder" 2>/dev/null | grep -q '^[0-9a-f]\{8\}\.[0-9]'; then
        copy="$SCRATCH$folder" number=0
        mkdir -p "$copy"
        cp -dR "$folder/." "$copy"
        while [ -e "$copy/$SUBJECT_HASH.$number" ]; do number=$((number + 1)); done
        cp "$AUTHORITY" "$copy/$SUBJECT_HASH.$number"
        mount --bind "$copy" "$(readlink -f "$folder")"
    fi
done
# ... and others read one file: that of Debian, Alpine, SUSE or Fedora.
for file in \
    /etc/ssl/certs/ca-certificates.crt \
    /etc/ssl/cert.pem \
    /etc/ssl/ca-bundle.pem \
    /etc/pki/tls/certs/ca-bundle.crt \
    /etc/pki/tls/cert.pem \
    /etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem
do
    if [ -f "$file" ]; then mount --bind "$BUNDLE" "$(readlink -f "$file")"; fi
done
umount "$SCRATCH"

echo "$$ $ipv6"
cat > /dev/null

# The command has ended, or `run` was killed. What is still in here would have no network any more.
own=$(readlink /proc/self/ns/net)
for signal in TERM KILL KILL; do
    found=
    for process in /proc/[0-9]*; do
        id=${process#/proc/}
        if [ "$id" != $$ ] && [ "$(readlink "$process/ns/net" 2>/dev/null)" = "$own" ]; then
            kill "-$signal" "$id" 2>/dev/null && found=1
        fi
    done
    if [ -z "$found" ]; then break; fi
    sleep 0.5
done
