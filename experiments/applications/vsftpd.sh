# vsftpd at port 2121, anonymous, passive ports 2130 to 2139; sourced at the far end.
mkdir -p "$WORK/ftp" /var/run/vsftpd/empty
chmod 755 "$WORK" "$WORK/ftp"
cp "$DATA/file" "$WORK/ftp/file"
chmod 644 "$WORK/ftp/file"
cat > "$WORK/vsftpd.conf" <<END
listen=YES
listen_port=2121
anonymous_enable=YES
no_anon_password=YES
anon_root=$WORK/ftp
background=NO
seccomp_sandbox=NO
isolate=NO
isolate_network=NO
connect_from_port_20=NO
pasv_min_port=2130
pasv_max_port=2139
END
vsftpd "$WORK/vsftpd.conf" &
until nc -z 127.0.0.1 2121; do sleep 0.05; done
