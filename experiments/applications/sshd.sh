# sshd at port 2222 for whoever runs this, with a key of its own; sourced at the far end. `ssh.conf` is for the near end.
mkdir -p -m 755 /run/sshd
ssh-keygen -q -t ed25519 -N '' -f "$WORK/host_key"
ssh-keygen -q -t ed25519 -N '' -f "$WORK/user_key"
cat > "$WORK/sshd.conf" <<END
Port 2222
HostKey $WORK/host_key
AuthorizedKeysFile $WORK/user_key.pub
StrictModes no
UsePAM no
PidFile none
PermitRootLogin yes
MaxStartups 100
Subsystem sftp internal-sftp
END
cat > "$WORK/ssh.conf" <<END
Host *
  Port 2222
  IdentityFile $WORK/user_key
  IdentitiesOnly yes
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
END
/usr/sbin/sshd -D -f "$WORK/sshd.conf" &
until nc -z 127.0.0.1 2222; do sleep 0.05; done
