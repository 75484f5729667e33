# nginx at port 8080 with what is in $WORK/www; sourced. $MORE, if set: further words for its server.
mkdir -p "$WORK/www" "$WORK/nginx"
cat > "$WORK/nginx.conf" <<END
daemon off; master_process off; pid $WORK/nginx/pid; error_log $WORK/nginx/log; user root;
events { worker_connections 4096; }
http {
  access_log off; types { text/html html; application/vnd.apple.mpegurl m3u8; }
  client_body_temp_path $WORK/nginx/a; proxy_temp_path $WORK/nginx/b; fastcgi_temp_path $WORK/nginx/c;
  uwsgi_temp_path $WORK/nginx/d; scgi_temp_path $WORK/nginx/e; keepalive_requests 100000;
  server { listen 8080; ${MORE:-} root $WORK/www; sendfile on; }
}
END
nginx -c "$WORK/nginx.conf" &
until nc -z 127.0.0.1 8080; do sleep 0.05; done
