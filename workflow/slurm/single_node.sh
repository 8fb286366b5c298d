#!/usr/bin/env bash
# A SLURM of one node on this machine, to try the profile `profiles/slurm` where there is no cluster:
#
#     workflow/slurm/single_node.sh start | stop | status
#
# It needs root and Debian's packages slurm-wlm and munge. `start` and `stop` can be repeated; a configuration in /etc/slurm
# that is not from here is never touched. The node has one GPU that exists for the scheduler alone.
set -euo pipefail

ours='# Written by workflow/slurm/single_node.sh; `stop` removes it.'
etc=/etc/slurm
state=/var/spool/bgbias-slurm
run=/run/bgbias-slurm

refuse() {
    echo "single_node.sh: $*" >&2
    exit 1
}

is_ours() {
    [ "$(head -n 1 "$1" 2>/dev/null)" = "$ours" ]
}

alive() {  # alive PIDFILE NAME: the process of that pidfile lives and has that name
    local pid
    pid=$(cat "$1" 2>/dev/null) && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$2" ]
}

answers() {  # the node takes jobs, or is busy with some
    [[ "$(timeout 5 sinfo --noheader --format %t 2>/dev/null)" =~ ^(idle|mix|alloc)$ ]]
}

check() {
    [ "$(id -u)" = 0 ] || refuse "only root can start SLURM here"
    local program
    for program in slurmctld slurmd munged sbatch; do
        command -v "$program" >/dev/null || refuse "$program is missing: apt-get install slurm-wlm munge"
    done
    for file in "$etc/slurm.conf" "$etc/gres.conf"; do
        [ ! -e "$file" ] || is_ours "$file" || refuse "$file is another cluster's; nothing was changed"
    done
}

configure() {
    local node cpus memory
    node=$(hostname -s)
    # Rules ask for up to 4 cores, also where there are fewer: this node is for trying, not for speed.
    cpus=$(nproc) && [ "$cpus" -ge 4 ] || cpus=4
    memory=$(($(awk '/MemTotal/ {print $2}' /proc/meminfo) / 1024))
    mkdir -p "$etc" "$state/ctld" "$state/d" "$run"
    # jobacct_gather/linux and OverMemoryKill: a job beyond its mem_mb is ended, without cgroups, as clusters do with them.
    # MinJobAge: without slurmdbd, Snakemake asks squeue how a job ended, which must not have been forgotten.
    cat >"$etc/slurm.conf" <<CONF
$ours
ClusterName=single
SlurmctldHost=$node(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
StateSaveLocation=$state/ctld
SlurmdSpoolDir=$state/d
SlurmctldPidFile=$run/slurmctld.pid
SlurmdPidFile=$run/slurmd.pid
SlurmctldLogFile=$state/slurmctld.log
SlurmdLogFile=$state/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000
MinJobAge=600
KillWait=5
ReturnToService=2
MpiDefault=none
GresTypes=gpu
NodeName=$node NodeAddr=127.0.0.1 CPUs=$cpus RealMemory=$memory Gres=gpu:1 State=UNKNOWN
PartitionName=all Nodes=$node Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
CONF
    printf '%s\nName=gpu File=/dev/null\n' "$ours" >"$etc/gres.conf"
}

start() {
    check
    if answers && is_ours "$etc/slurm.conf"; then
        echo "SLURM is up: $(sinfo --noheader --format '%n, %c cores, %m MB, %G')"
        return
    fi
    configure
    if ! munge -n >/dev/null 2>&1; then
        [ -e /etc/munge/munge.key ] || mungekey --create
        install -d -o munge -g munge -m 755 /run/munge
        runuser -u munge -- munged --force
    fi
    alive "$run/slurmctld.pid" slurmctld || slurmctld -i
    alive "$run/slurmd.pid" slurmd || slurmd
    for _ in $(seq 60); do
        if answers; then
            start
            return
        fi
        # A node that was away must be taken back.
        scontrol update nodename="$(hostname -s)" state=resume 2>/dev/null || true
        sleep 0.5
    done
    tail -n 20 "$state/slurmctld.log" "$state/slurmd.log" >&2
    refuse "SLURM did not come up in 30 s; its last words are above"
}

stop() {
    check
    is_ours "$etc/slurm.conf" || { echo "SLURM of this script is not there"; return; }
    timeout 10 scancel --state=PENDING --state=RUNNING --user=root 2>/dev/null || true
    local name pid
    for name in slurmd slurmctld; do
        if alive "$run/$name.pid" "$name"; then
            pid=$(cat "$run/$name.pid")
            kill "$pid"
            for _ in $(seq 40); do
                [ -e "/proc/$pid" ] || break
                sleep 0.25
            done
        fi
    done
    rm -rf "$etc/slurm.conf" "$etc/gres.conf" "$state" "$run"
    echo "SLURM is stopped, its configuration removed; munged stays"
}

status() {
    is_ours "$etc/slurm.conf" || { echo "SLURM of this script is not there"; return 3; }
    sinfo
    squeue
}

case "${1:-}" in
start | stop | status) "$1" ;;
*) refuse "say start, stop or status" ;;
esac
